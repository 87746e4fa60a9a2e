//! The policy as a fragment of an OpenAPI document, to be merged into the service's own.

use serde_json::{Map, Value, json};

use super::policy::{KeyedPolicy, OperationPolicy, Policy, ProblemPolicy};

/// OpenAPI 3.1.
pub(super) fn fragment(policy: &Policy) -> String {
    let mut paths: Map<String, Value> = Map::new();
    for operation in &policy.operations {
        for (nth, route) in operation.routes.iter().enumerate() {
            let item = paths.entry(path(&route.path)).or_insert_with(|| json!({}));
            if let Value::Object(item) = item {
                let mut described = describe(policy, operation, &route.path, nth);
                if let Some(host) = &route.host {
                    described["servers"] = json!([{ "url": format!("//{host}") }]);
                }
                let method = route.method.to_ascii_lowercase();
                // OpenAPI knows one operation of a path; those of other hosts stand beside it.
                let name = match &route.host {
                    Some(host) if item.contains_key(&method) => format!("x-{method}-{host}"),
                    _ => method,
                };
                item.insert(name, described);
            }
        }
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": { "title": "Idempotency", "version": policy.version.to_string() },
        "paths": paths,
        "components": { "schemas": { "Problem": problem_schema() }, "headers": headers() },
    });
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

/// OpenAPI has no wildcard: what is open is a parameter.
fn path(route: &str) -> String {
    match route.strip_suffix('*') {
        Some(start) => format!("{start}{{rest}}"),
        None => route.to_owned(),
    }
}

fn parameters(route: &str) -> Vec<Value> {
    let path = path(route);
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    names.map(parameter).collect()
}

fn describe(policy: &Policy, operation: &OperationPolicy, route: &str, nth: usize) -> Value {
    // Operation ids are unique within a document.
    let id = match nth {
        0 => operation.name.clone(),
        nth => format!("{}.{}", operation.name, nth + 1),
    };
    let mut described = json!({
        "operationId": id,
        "parameters": parameters(route),
        "x-idempotency": operation,
    });
    if let Some(keyed) = &operation.keyed {
        if let Some(parameters) = described["parameters"].as_array_mut() {
            parameters.extend(key_parameter(keyed));
        }
        described["responses"] = responses(policy, keyed);
    } else {
        described["responses"] = json!({ "default": { "description": "The service's answer" } });
    }
    described
}

/// A key in the body is in the service's own schema of it.
fn key_parameter(keyed: &KeyedPolicy) -> Option<Value> {
    let header = keyed.key.header.as_ref()?;
    Some(json!({
        "name": header,
        "in": "header",
        "required": keyed.key.required,
        "description": "One key for one intent: made before the first attempt, kept until the \
                        outcome is known.",
        "schema": {
            "type": "string",
            "minLength": keyed.key.min_length,
            // A quoted key has its quotes, and may have escapes.
            "maxLength": 2 * keyed.key.max_length + 2,
        },
    }))
}

fn responses(policy: &Policy, keyed: &KeyedPolicy) -> Value {
    let mut responses = Map::new();
    let problems = policy.problems.iter().filter(|it| keyed.problems.contains(&it.name));
    let status = |problem: &ProblemPolicy| {
        keyed.problem_statuses.get(problem.name).copied().unwrap_or(problem.status)
    };
    // One that goes on with the next retry asks for it.
    let goes_on = keyed.unknown_outcome != "hold";
    let again = policy.problems.iter().filter(|it| goes_on && it.name == "outcome-unknown");
    let problems = problems.map(|it| (status(it), it)).chain(again.map(|it| (503, it)));
    for (status, problem) in problems {
        let response = responses.entry(status.to_string()).or_insert_with(|| {
            json!({
                "description": "",
                "content": {
                    "application/problem+json": {
                        "schema": { "$ref": "#/components/schemas/Problem" },
                    },
                },
            })
        });
        let described = response["description"].as_str().unwrap_or_default();
        let separator = if described.is_empty() { "" } else { "; " };
        response["description"] =
            Value::String(format!("{described}{separator}{}: {}", problem.name, problem.title));
    }
    responses.insert(
        "default".to_owned(),
        json!({
            "description": "The service's answer, or its first answer replayed",
            "headers": {
                "Idempotent-Replayed": { "$ref": "#/components/headers/IdempotentReplayed" },
                "Idempotency-Expires": { "$ref": "#/components/headers/IdempotencyExpires" },
            },
        }),
    );
    if keyed.in_flight.then == "accept" || keyed.in_flight.preferences.contains(&"respond-async") {
        responses.insert(
            "202".to_owned(),
            json!({ "description": "It goes on; its status is at Location" }),
        );
    }
    Value::Object(responses)
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "description": "RFC 9457",
        "required": ["type", "title", "status"],
        "properties": {
            "type": { "type": "string", "format": "uri" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
        },
    })
}

fn headers() -> Value {
    json!({
        "IdempotentReplayed": {
            "description": "The first answer, given again",
            "schema": { "type": "string", "const": "true" },
        },
        "IdempotencyExpires": {
            "description": "Until when a retry with this key gets this answer",
            "schema": { "type": "string", "format": "date-time" },
        },
    })
}
