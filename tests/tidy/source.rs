//! Reading Rust as far as the house rules need it: what is code, whom it names, how long it is.

use std::collections::BTreeMap;

/// `text` with comments, strings and characters blanked out, every line where it was.
pub(crate) fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = comment_end(&chars, at)
            .or_else(|| raw_string_end(&chars, at))
            .or_else(|| quoted_end(&chars, at));
        if let Some(end) = end {
            let blank = |c: &char| if *c == '\n' { '\n' } else { ' ' };
            code.extend(chars[at..end].iter().map(blank));
            at = end;
        } else {
            code.push(chars[at]);
            at += 1;
        }
    }
    code
}

fn comment_end(chars: &[char], at: usize) -> Option<usize> {
    match (chars[at], chars.get(at + 1)?) {
        ('/', '/') => {
            let length = chars[at..].iter().position(|c| *c == '\n');
            Some(length.map_or(chars.len(), |length| at + length))
        }
        ('/', '*') => {
            let (mut depth, mut end) = (1, at + 2);
            while 0 < depth && end < chars.len() {
                match (chars[end], chars.get(end + 1)) {
                    ('/', Some('*')) => (depth, end) = (depth + 1, end + 2),
                    ('*', Some('/')) => (depth, end) = (depth - 1, end + 2),
                    _ => end += 1,
                }
            }
            Some(end)
        }
        _ => None,
    }
}

fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let is_prefix = chars[at] == 'r'
        && match at.checked_sub(1).map(|before| chars[before]) {
            Some('b' | 'c') => at < 2 || !is_ident(chars[at - 2]),
            Some(before) => !is_ident(before),
            None => true,
        };
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let open = at + 1 + hashes;
    if !is_prefix || chars.get(open) != Some(&'"') {
        return None;
    }
    let mut end = open + 1;
    while end < chars.len() {
        let closing = chars[end + 1..].iter().take(hashes);
        if chars[end] == '"' && closing.filter(|c| **c == '#').count() == hashes {
            return Some(end + 1 + hashes);
        }
        end += 1;
    }
    Some(chars.len())
}

/// The end of a string or a character; a quote that begins a lifetime is neither.
fn quoted_end(chars: &[char], at: usize) -> Option<usize> {
    let quote = chars[at];
    let is_lifetime = quote == '\''
        && chars.get(at + 1).is_some_and(|c| *c != '\\')
        && chars.get(at + 2) != Some(&'\'');
    if !matches!(quote, '"' | '\'') || is_lifetime {
        return None;
    }
    let mut end = at + 1;
    while end < chars.len() && chars[end] != quote {
        end += if chars[end] == '\\' { 2 } else { 1 };
    }
    Some(chars.len().min(end + 1))
}

pub(crate) fn is_ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `code` without its unit tests, which stand last in a file.
pub(crate) fn without_tests(code: &str) -> &str {
    let tests = code.match_indices("#[cfg(test)]").find(|(at, mark)| {
        let next = code[at + mark.len()..].trim_start();
        next.starts_with("mod ")
    });
    tests.map_or(code, |(at, _)| &code[..at])
}

/// Names, `::` and single signs, each with its line.
fn tokens(code: &str) -> Vec<(&str, usize)> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if is_ident(first) {
                rest.find(|c| !is_ident(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push((&rest[..length], index + 1));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// What `code` names at the root of the crate, with the first line that does.
///
/// `place` is the module path of the file, `root` what the crate is called there. Understands
/// `use` trees, paths in expressions, `super` across files and inline modules.
pub(crate) fn roots(code: &str, place: &[&str], root: &str) -> BTreeMap<String, usize> {
    let tokens = tokens(code);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.0);
    let mut roots = BTreeMap::new();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let mut after = at + 1;
        let leads_to_root = match text(at) {
            "{" => {
                let is_module = 2 <= at && text(at - 2) == "mod";
                blocks.push(is_module);
                false
            }
            "}" => {
                blocks.pop();
                false
            }
            "super" => {
                let mut supers = 1;
                while text(after) == "::" && text(after + 1) == "super" {
                    (supers, after) = (supers + 1, after + 2);
                }
                supers == place.len() + blocks.iter().filter(|is_module| **is_module).count()
            }
            name => name == root,
        };
        if leads_to_root && text(after) == "::" {
            for (name, line) in heads(&tokens[after + 1..]) {
                roots.entry(name.to_owned()).or_insert(line);
            }
        }
        at = after;
    }
    roots
}

/// The names that a path goes on with: one, or the first ones of each branch in braces.
fn heads<'a>(tokens: &[(&'a str, usize)]) -> Vec<(&'a str, usize)> {
    let Some((first, line)) = tokens.first() else {
        return Vec::new();
    };
    if *first != "{" {
        return vec![(*first, *line)];
    }
    let mut heads = Vec::new();
    let mut depth = 0;
    for (index, (text, _)) in tokens.iter().enumerate() {
        match *text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(*text, "{" | ",") {
            heads.extend(tokens.get(index + 1).filter(|next| next.0 != "}"));
        }
    }
    heads
}

/// Each function with the line it begins on and how many lines it has.
pub(crate) fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let tokens = tokens(code);
    let mut functions = Vec::new();
    for (index, (text, line)) in tokens.iter().enumerate() {
        let name = tokens.get(index + 1).map_or("", |token| token.0);
        if *text != "fn" || !name.starts_with(is_ident) {
            continue;
        }
        let (mut brackets, mut braces) = (0, 0);
        for (text, end) in &tokens[index..] {
            match *text {
                "(" | "[" => brackets += 1,
                ")" | "]" => brackets -= 1,
                "{" => braces += 1,
                "}" => braces -= 1,
                ";" if braces == 0 && brackets == 0 => break,
                _ => {}
            }
            if *text == "}" && braces == 0 {
                functions.push((name.to_owned(), *line, end - line + 1));
                break;
            }
        }
    }
    functions
}

/// The lines of `code` on which `needle` stands for itself and is not a part of a longer name.
pub(crate) fn lines_with(code: &str, needle: &str) -> Vec<usize> {
    let stands_alone = |line: &str| {
        line.match_indices(needle).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + needle.len()..].chars().next();
            let joins = |c: char| is_ident(c) && needle.ends_with(is_ident);
            !before.is_some_and(is_ident) && !after.is_some_and(joins)
        })
    };
    let numbered = code.lines().enumerate();
    let found = numbered.filter(|(_, line)| stands_alone(line));
    found.map(|(index, _)| index + 1).collect()
}
