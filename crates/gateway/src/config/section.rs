//! Reading a TOML document key by key, so that every mistake has its line and none hides another.

use std::{fmt, ops::Range, path::PathBuf, time::Duration};

use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use super::{
    At, Fault, Place, Report, duration, in_range, out_of_range, size,
    suggest::{nearest, shown},
};

/// The text that is read, and where its mistakes go.
pub(super) struct Source<'a> {
    line_ends: Vec<usize>,
    report: &'a Report,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &str, report: &'a Report) -> Self {
        let line_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { line_ends: line_ends.map(|(at, _)| at).collect(), report }
    }

    /// The document; `None` when it is no TOML, which is reported.
    ///
    /// The parser's own display would repeat the line, which may hold a secret; its message does
    /// not.
    pub(super) fn document<'s>(&'s self, text: &'s str) -> Option<Section<'s>> {
        let (document, errors) = DeTable::parse_recoverable(text);
        let mut last_line = 0;
        for error in &errors {
            let line = self.line(error.span().map_or(text.len(), |span| span.start));
            // What follows on one line is mostly the echo of its first mistake.
            if line != last_line {
                let what = format!("this is not TOML: {}", error.message());
                let help = "write key = value; texts stand in double quotes, such as \"30s\"";
                self.report.add(&Place::Line(line, String::new()), Fault::new(what, help));
            }
            last_line = line;
        }
        let root = Place::Line(1, String::new());
        errors.is_empty().then(|| Section::new(self, "the file", root, "", document.into_inner()))
    }

    fn line(&self, offset: usize) -> usize {
        self.line_ends.partition_point(|&end| end < offset) + 1
    }

    fn place(&self, span: Range<usize>, key: impl Into<String>) -> Place {
        Place::Line(self.line(span.start), key.into())
    }
}

/// A table whose keys are taken one by one. Those that nobody takes are unknown.
pub(super) struct Section<'s> {
    source: &'s Source<'s>,
    /// As messages call it: `[[operation]]`.
    name: String,
    /// What stands before its keys in messages: `retention.`.
    prefix: String,
    place: Place,
    entries: Vec<(Spanned<DeString<'s>>, Spanned<DeValue<'s>>)>,
    known: Vec<&'static str>,
    mistakes_before: usize,
}

impl<'s> Section<'s> {
    fn new(
        source: &'s Source<'s>,
        name: impl Into<String>,
        place: Place,
        prefix: impl Into<String>,
        table: DeTable<'s>,
    ) -> Self {
        Self {
            source,
            name: name.into(),
            prefix: prefix.into(),
            place,
            entries: table.into_iter().collect(),
            known: Vec::new(),
            mistakes_before: source.report.count(),
        }
    }

    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    pub(super) const fn report(&self) -> &'s Report {
        self.source.report
    }

    /// Reports something about the section as a whole.
    pub(super) fn wrong(&self, what: impl Into<String>, help: impl Into<String>) {
        self.source.report.add(&self.place, Fault::new(what, help));
    }

    /// Takes the value of a key.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Value<'s>> {
        self.known.push(key);
        let at = self.entries.iter().position(|(name, _)| name.get_ref() == key)?;
        let (name, value) = self.entries.swap_remove(at);
        Some(self.value(&name, value))
    }

    /// Takes every key that is left, where the keys are the user's own.
    pub(super) fn take_all(&mut self) -> Vec<(String, Value<'s>)> {
        let entries = std::mem::take(&mut self.entries).into_iter();
        entries
            .map(|(name, value)| (name.get_ref().to_string(), self.value(&name, value)))
            .collect()
    }

    /// Refuses keys of the design that this version does not have.
    pub(super) fn refuse_later(&mut self, keys: &[&'static str]) {
        for key in keys {
            if let Some(value) = self.take(key) {
                value.wrong(Fault::later());
            }
            // Nobody is sent to a key that is refused.
            self.known.pop();
        }
    }

    /// Reports the keys that nobody took. Whether the whole section was right.
    pub(super) fn finish(self) -> bool {
        for (name, _) in &self.entries {
            let key = name.get_ref();
            let key_shown = format!("{}{}", self.prefix, shown_key(key));
            let place = self.source.place(name.span(), key_shown);
            let help = match nearest(key, self.known.iter().copied()) {
                Some(known) => format!("did you mean {known:?}?"),
                None if self.known.is_empty() => "remove it".to_owned(),
                None => format!("remove it; {} takes {}", self.name, self.known.join(", ")),
            };
            let what = format!("there is no such key in {}", self.name);
            self.source.report.add(&place, Fault::new(what, help));
        }
        self.source.report.count() == self.mistakes_before
    }

    fn value(&self, name: &Spanned<DeString<'s>>, value: Spanned<DeValue<'s>>) -> Value<'s> {
        let source = self.source;
        let own = shown_key(name.get_ref());
        let key = format!("{}{own}", self.prefix);
        let place = source.place(name.span(), &*key);
        Value { source, place, key, assigned: format!("{own} = "), value }
    }
}

/// A value on its way to what it means. What is wrong with it is reported here.
pub(super) struct Value<'s> {
    source: &'s Source<'s>,
    place: Place,
    /// With the sections it is in: `retention.outcome`.
    key: String,
    /// How it starts when it is written out: `outcome = `, or nothing in a list.
    assigned: String,
    value: Spanned<DeValue<'s>>,
}

impl<'s> Value<'s> {
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    pub(super) const fn report(&self) -> &'s Report {
        self.source.report
    }

    pub(super) fn toml(&self) -> &DeValue<'s> {
        self.value.get_ref()
    }

    /// Reports something about this value.
    pub(super) fn wrong(&self, fault: Fault) {
        self.source.report.add(&self.place, fault);
    }

    /// A text that means something. `expected` and `example` are for the remedy.
    pub(super) fn parse<T>(
        self,
        expected: &str,
        example: impl fmt::Display,
        parse: impl FnOnce(&str) -> Result<T, Fault>,
    ) -> Option<At<T>> {
        match self.value.get_ref() {
            DeValue::String(text) => self.source.report.keep(self.place, parse(text)),
            _ => self.mismatch(expected, format_args!("\"{example}\"")),
        }
    }

    /// A text that is kept as it is.
    pub(super) fn text(self, example: &str) -> Option<At<String>> {
        self.parse("a text", example, |text| Ok(text.to_owned()))
    }

    pub(super) fn duration(self, example: &str) -> Option<At<Duration>> {
        self.parse("a duration", example, |text| duration::parse(text, example))
    }

    /// A duration that is there for something.
    pub(super) fn positive_duration(self, example: &str) -> Option<At<Duration>> {
        let report = self.source.report;
        let duration = self.duration(example)?;
        if duration.value.is_zero() {
            let help = format!("write a longer one, such as {example:?}");
            report.add(&duration.place, Fault::new("it cannot be zero", help));
            return None;
        }
        Some(duration)
    }

    /// A number of bytes: a text with a unit, or a whole number.
    pub(super) fn size(self, example: &str) -> Option<At<usize>> {
        match self.value.get_ref() {
            DeValue::Integer(number) => {
                let bytes = usize::from_str_radix(number.as_str(), number.radix());
                let bytes = bytes.map_err(|_| size::wrong(number, example));
                self.source.report.keep(self.place, bytes)
            }
            _ => self.parse("a number of bytes", example, |text| size::parse(text, example)),
        }
    }

    pub(super) fn whole_number(
        self,
        least: usize,
        most: usize,
        example: &str,
    ) -> Option<At<usize>> {
        let DeValue::Integer(number) = self.value.get_ref() else {
            return self.mismatch("a whole number", example);
        };
        let fitting = usize::from_str_radix(number.as_str(), number.radix())
            .map_err(|_| out_of_range(number, least, most, example))
            .and_then(|number| in_range(number, least, most, example));
        self.source.report.keep(self.place, fitting)
    }

    /// A list of whole numbers.
    pub(super) fn whole_numbers(
        self,
        least: usize,
        most: usize,
        example: &str,
    ) -> Option<Vec<usize>> {
        if !matches!(self.value.get_ref(), DeValue::Array(_)) {
            return self.mismatch("a list of whole numbers", example);
        }
        let first = example.trim_matches(['[', ']']).to_owned();
        let items = self.items(|key| key.to_owned()).into_iter();
        let numbers = items.map(|item| item.whole_number(least, most, &first));
        numbers.map(|number| number.map(|number| number.value)).collect()
    }

    pub(super) fn boolean(self) -> Option<At<bool>> {
        match self.value.get_ref() {
            DeValue::Boolean(value) => Some(At { value: *value, place: self.place }),
            _ => self.mismatch("true or false", "true"),
        }
    }

    /// A list of texts that each mean something.
    pub(super) fn list<T>(
        self,
        expected: &str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, Fault>,
    ) -> Vec<At<T>> {
        if !matches!(self.value.get_ref(), DeValue::Array(_)) {
            self.mismatch::<()>(&format!("a list of {expected}s"), format_args!("[{example:?}]"));
            return Vec::new();
        }
        let items = self.items(|key| key.to_owned());
        let expected = format!("a {expected}");
        items.into_iter().filter_map(|item| item.parse(&expected, example, &parse)).collect()
    }

    /// A list of values of any type.
    pub(super) fn values(self, expected: &str, example: &str) -> Vec<Self> {
        if !matches!(self.value.get_ref(), DeValue::Array(_)) {
            self.mismatch::<()>(expected, example);
            return Vec::new();
        }
        self.items(|key| key.to_owned())
    }

    /// A text that means something, or a list of such texts.
    pub(super) fn one_or_more<T>(
        self,
        expected: &str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, Fault>,
    ) -> Vec<At<T>> {
        match self.value.get_ref() {
            DeValue::Array(items) if items.is_empty() => {
                let help = format!("write one, as in {}{example:?}", self.assigned);
                self.wrong(Fault::new("the list is empty", help));
                Vec::new()
            }
            DeValue::Array(_) => self.list(expected, example, parse),
            _ => {
                let expected = format!("a {expected}, or a list of them,");
                self.parse(&expected, example, parse).into_iter().collect()
            }
        }
    }

    /// The path of a file.
    pub(super) fn path(self, example: &str) -> Option<At<PathBuf>> {
        self.parse("a path", example, |text| match text {
            "" => Err(Fault::new("the path is empty", format!("name a file, such as {example:?}"))),
            _ => Ok(text.into()),
        })
    }

    /// A table.
    pub(super) fn section(self, example: &str) -> Option<Section<'s>> {
        let (name, prefix) = (self.key.clone(), format!("{}.", self.key));
        self.named_section(name, prefix, example)
    }

    /// A table under a header of its own: `[operator]`.
    pub(super) fn headed_section(self) -> Option<Section<'s>> {
        let name = format!("[{}]", self.key);
        let prefix = format!("{}.", self.key);
        if !self.is_table() {
            let what = format!("{} stands where a table belongs", type_name(self.toml()));
            self.wrong(Fault::new(what, format!("write its keys below a line {name}")));
            return None;
        }
        self.named_section(name, prefix, "{}")
    }

    /// The tables of a list under headers of their own: `[[operation]]`.
    pub(super) fn headed_sections(self) -> Vec<Section<'s>> {
        let name = format!("[[{}]]", self.key);
        if !matches!(self.value.get_ref(), DeValue::Array(_)) {
            let what = format!("{} stands where a list of tables belongs", type_name(self.toml()));
            self.wrong(Fault::new(what, format!("write each below a line {name}")));
            return Vec::new();
        }
        let items = self.items(|_| name.clone());
        items
            .into_iter()
            .filter_map(|item| item.named_section(name.clone(), String::new(), "{}"))
            .collect()
    }

    /// Whether it is a table.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Table(_))
    }

    /// Reports that it has the wrong type. A value is never repeated: it may be a secret.
    pub(super) fn mismatch<T>(&self, expected: &str, example: impl fmt::Display) -> Option<T> {
        let what = format!("{} stands where {expected} belongs", type_name(self.value.get_ref()));
        self.wrong(Fault::new(what, format!("write it as in {}{example}", self.assigned)));
        None
    }

    fn named_section(self, name: String, prefix: String, example: &str) -> Option<Section<'s>> {
        if !self.is_table() {
            return self.mismatch("a table", example);
        }
        match self.value.into_inner() {
            DeValue::Table(table) => {
                Some(Section::new(self.source, name, self.place, prefix, table))
            }
            _ => None,
        }
    }

    fn items(self, key: impl Fn(&str) -> String) -> Vec<Self> {
        let DeValue::Array(items) = self.value.into_inner() else { return Vec::new() };
        let source = self.source;
        let key = key(&self.key);
        let item = |value: Spanned<DeValue<'s>>| Self {
            source,
            place: source.place(value.span(), &*key),
            key: key.clone(),
            assigned: String::new(),
            value,
        };
        items.into_iter().map(item).collect()
    }
}

/// A key as messages show it: bare, or in quotes where TOML needs them.
fn shown_key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_bare = !key.is_empty() && key.len() <= 80 && key.chars().all(bare);
    if is_bare { key.to_owned() } else { shown(key) }
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
