"""The cases that the clients of all languages share: ``clients/policy-cases.json``."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

from hapax_client.backoff import Backoff, Jitter
from hapax_client.course import Ask, Course, End, Request, Resend
from hapax_client.facts import facts
from hapax_client.observation import Lost, NeverSent, OperationState, Status
from hapax_client.policy import Policy
from hapax_client.response import Headers, Response
from hapax_client.times import parse_http_date

_CASES = Path(__file__).parents[2] / "policy-cases.json"

_WORDS = {
    "never-sent": NeverSent(),
    "never-sent-lasting": NeverSent(lasting=True),
    "lost": Lost(),
}


class SharedCases(unittest.TestCase):
    def test_k7_every_case_is_decided_as_in_the_other_languages(self):
        document = json.loads(_CASES.read_text())
        wall = parse_http_date(document["wall"])
        self.assertGreater(len(document["cases"]), 100, "they are all there")
        for case in document["cases"]:
            with self.subTest(case["name"]):
                self.run_case(case, wall)

    def run_case(self, case, wall):
        policy = _policy(**case.get("policy", {}))
        course = Course(policy, Request(**case.get("request", {})))
        for nth, step in enumerate(case["steps"], 1):
            asked = []

            def budget(cost):
                asked.append(cost)
                return step.get("budget", True)

            seen = _seen(policy, step["seen"], wall)
            came = course.next(policy, seen, step["at"], step["random"], budget)
            kinds = {Resend: "resend", Ask: "ask"}
            word = came.value if isinstance(came, End) else kinds[type(came)]
            pause = 0.0 if isinstance(came, End) else came.pause
            self.assertEqual(word, step["next"], f"step {nth}")
            self.assertAlmostEqual(pause, step.get("pause", 0.0), delta=1e-6, msg=f"step {nth}")
            cost = asked[0].value if asked and step.get("budget", True) else None
            self.assertEqual(cost, step.get("cost"), f"step {nth}")
            self.assertLessEqual(set(step), _STEP, f"step {nth} says something that nobody reads")


_STEP = {"at", "random", "seen", "budget", "next", "pause", "cost"}


def _policy(**fields):
    for name in ("backoff", "waiting"):
        if name in fields:
            rule = dict(fields[name])
            if "jitter" in rule:
                rule["jitter"] = Jitter(rule["jitter"])
            fields[name] = Backoff(**rule)
    return Policy(**fields)


def _seen(policy, seen, wall):
    if isinstance(seen, str):
        return _WORDS[seen]
    if "operation" in seen:
        return Status(OperationState(seen["operation"]), seen.get("retry_after"))
    headers = dict(seen.get("headers", {}))
    body = seen.get("json")
    if "problem" in seen:
        headers["Content-Type"] = "application/problem+json"
        kind = policy.problem_base + seen["problem"]
        body = {"type": kind, "title": "", "status": seen["status"]}
    text = b"" if body is None else json.dumps(body).encode()
    return facts(policy, Response(seen["status"], Headers.of(headers.items()), text), wall)


if __name__ == "__main__":
    unittest.main()
