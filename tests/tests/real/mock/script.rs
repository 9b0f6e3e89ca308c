//! The list of requests.

use informer_tests::real::Outcome;

/// A line of the list, with its body.
#[derive(Debug)]
pub(super) enum Line {
    /// The title of what follows.
    Section(String),
    /// Requests that differ in what the brackets of their target have. They are sent together.
    Ask(Vec<Ask>),
    /// Makes every version so far expire.
    Compact,
    /// Waits until the servers have reacted to what was written.
    Pause,
}

/// A request.
#[derive(Clone, Debug, Default)]
pub(super) struct Ask {
    /// The name, with the choices that were made in brackets.
    pub(super) name: String,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) accept: Option<String>,
    pub(super) media: Option<String>,
    /// Somebody else than the administrator.
    pub(super) user: Option<String>,
    /// Whether the body is read in the background, up to the end of the section.
    pub(super) is_watch: bool,
    /// Whether the mock gets a fault for it.
    pub(super) is_overloaded: bool,
    pub(super) body: String,
}

/// Reads the list.
pub(super) fn parse(text: &str) -> Outcome<Vec<Line>> {
    let mut names = Vec::new();
    let mut lines = Vec::new();
    let mut source = text.lines().skip(1).peekable();
    while let Some(line) = source.next() {
        let line = line.trim_end();
        if line.is_empty() {
            continue;
        }
        if let Some(title) = line.strip_prefix("# ") {
            lines.push(Line::Section(title.to_owned()));
        } else if let Some(named) = line.strip_prefix("let ") {
            let (name, value) = named.split_once(" = ").ok_or("let without a value")?;
            names.push((format!("${name}"), value.to_owned()));
        } else if line == "!compact" {
            lines.push(Line::Compact);
        } else if line == "!pause" {
            lines.push(Line::Pause);
        } else {
            let mut line = line.to_owned();
            for (name, value) in &names {
                line = line.replace(name, value);
            }
            let body = source.next_if(|next| next.starts_with(' '));
            let body = body.unwrap_or_default().trim();
            lines.push(Line::Ask(request(&line, body)?));
        }
    }
    Ok(lines)
}

fn request(line: &str, body: &str) -> Outcome<Vec<Ask>> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut word = || {
        words
            .next()
            .ok_or_else(|| format!("incomplete request: {line}"))
    };
    let (name, method, target) = (word()?, word()?, word()?);
    let mut ask = Ask {
        method,
        ..Ask::default()
    };
    for option in words {
        let (key, value) = option.split_once('=').unwrap_or((&option, ""));
        let value = value.to_owned();
        match key {
            "@accept" => ask.accept = Some(value),
            "@type" => ask.media = Some(value),
            "@user" => ask.user = Some(value),
            "@watch" => ask.is_watch = true,
            "@mock" => ask.is_overloaded = true,
            _ => return Err(format!("unknown option: {line}").into()),
        }
    }
    let made = choices(&target).into_iter().map(|(choice, target)| {
        let name = match choice {
            Some(choice) => format!("{name}[{choice}]"),
            None => name.clone(),
        };
        let body = body.replace("${me}", &name);
        Ask {
            name,
            target,
            body,
            ..ask.clone()
        }
    });
    Ok(made.collect())
}

/// Chooses among the alternatives in brackets in every way. Returns the choices and the text.
fn choices(text: &str) -> Vec<(Option<String>, String)> {
    let parts = text.split_once('[').and_then(|(head, rest)| {
        rest.split_once(']')
            .map(|(inside, tail)| (head, inside, tail))
    });
    let Some((head, inside, tail)) = parts else {
        return vec![(None, text.to_owned())];
    };
    let rest = choices(tail);
    let mut all = Vec::new();
    for alternative in inside.split('|') {
        let shown = alternative.replace("${", "").replace('}', "");
        for (choice, tail) in &rest {
            let choice = match choice {
                Some(choice) => format!("{shown}; {choice}"),
                None => shown.clone(),
            };
            all.push((Some(choice), format!("{head}{alternative}{tail}")));
        }
    }
    all
}
