//! The JSONPath of `additionalPrinterColumns`: members, indexes, `*`, and a filter that compares one member.

use core::mem;

use serde_json::Value;

/// A path to values of an object.
#[derive(Debug)]
pub(crate) struct Path(Vec<Step>);

#[derive(Debug)]
enum Step {
    Member(String),
    /// An index of an array; a negative one counts from the end.
    Index(i64),
    All,
    /// The elements in which a path has this text, or in which it has another one.
    Where(Path, bool, String),
}

impl Path {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`. Returns `None` if it has other parts.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text
            .strip_prefix('{')
            .map_or(Some(text), |inner| inner.strip_suffix('}'))?;
        let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let step;
            (step, rest) = match rest.strip_prefix('[') {
                Some(inner) => bracket(inner)?,
                None => member(rest.strip_prefix('.').unwrap_or(rest))?,
            };
            steps.push(step);
        }
        Some(Self(steps))
    }

    /// Returns the text of the first value at the path.
    pub(crate) fn text(&self, object: &Value) -> String {
        self.values(object)
            .first()
            .map_or_else(String::new, |value| plain(value))
    }

    fn values<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        let mut values = vec![object];
        for step in &self.0 {
            let found = mem::take(&mut values);
            for value in found {
                step.follow(value, &mut values);
            }
        }
        values
    }
}

impl Step {
    fn follow<'v>(&self, value: &'v Value, found: &mut Vec<&'v Value>) {
        let elements = || value.as_array().map_or(&[] as &[Value], Vec::as_slice);
        match self {
            Self::Member(name) => found.extend(value.get(name)),
            Self::Index(index) => {
                let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
                let index = match index {
                    0.. => Some(from_end),
                    _ => elements().len().checked_sub(from_end),
                };
                found.extend(index.and_then(|index| elements().get(index)));
            }
            Self::All => {
                found.extend(
                    value
                        .as_object()
                        .into_iter()
                        .flat_map(serde_json::Map::values),
                );
                found.extend(elements());
            }
            Self::Where(path, is_equal, text) => {
                let is_wanted = |element: &&Value| (path.text(element) == *text) == *is_equal;
                found.extend(elements().iter().filter(is_wanted));
            }
        }
    }
}

/// Parses a name up to the next `.` or `[`. A backslash takes the next character as it is.
fn member(text: &str) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            _ => name.push(c),
        }
    }
    let step = match name.as_str() {
        // A recursive descent, `..name`, is not supported.
        "" => return None,
        "*" => Step::All,
        _ => Step::Member(name),
    };
    Some((step, &text[end..]))
}

/// Parses what follows a `[`.
fn bracket(text: &str) -> Option<(Step, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        let (filter, rest) = filter.split_once(")]")?;
        let (is_equal, (path, value)) = match filter.split_once("==") {
            Some(parts) => (true, parts),
            None => (false, filter.split_once("!=")?),
        };
        let value = value.trim();
        let value = quoted(value).unwrap_or(value);
        return Some((
            Step::Where(Path::parse(path)?, is_equal, value.to_owned()),
            rest,
        ));
    }
    let (inner, rest) = text.split_once(']')?;
    let step = match quoted(inner) {
        Some(name) => Step::Member(name.replace("\\.", ".")),
        None if inner == "*" => Step::All,
        None => Step::Index(inner.parse().ok()?),
    };
    Some((step, rest))
}

fn quoted(text: &str) -> Option<&str> {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

fn plain(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_null() => String::new(),
        None => value.to_string(),
    }
}
