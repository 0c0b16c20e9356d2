//! The code of a Rust file: its text with comments and literals blanked out, line for line.

/// Blanks comments, strings and characters; what is left is code, each line where it was.
pub(crate) fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        let literal = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment_len(rest),
            '"' => string_len(rest),
            // `br"…"` and `cr"…"` begin with another letter, which stays.
            'r' if !in_word || out.ends_with(['b', 'c']) => raw_len(rest).unwrap_or(0),
            '\'' => char_len(rest),
            _ => 0,
        };
        let taken = if literal == 0 { first.len_utf8() } else { literal };
        let (head, tail) = rest.split_at(taken);
        if literal == 0 {
            out.push(first);
        } else {
            out.push(' ');
            out.extend(head.chars().filter(|&c| c == '\n'));
        }
        in_word = literal == 0 && is_word(first);
        rest = tail;
    }
    out
}

/// Whether `word` stands in `line` by itself.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_word)
            && !line[at + word.len()..].chars().next().is_some_and(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Bytes of the block comment, which may hold others, that `text` begins with.
fn comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Bytes of the string that `text` begins with.
fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Bytes of the raw string that `text` begins with, if it is one.
fn raw_len(text: &str) -> Option<usize> {
    let hashes = text[1..].bytes().take_while(|&b| b == b'#').count();
    let body = text[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(text.len(), |at| 2 + hashes + at + end.len()))
}

/// Bytes of the character that `text` begins with; 0 when it is a lifetime.
fn char_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let from = at + escaped.len_utf8();
            text[from..].find('\'').map_or(0, |end| from + end + 1)
        }
        (Some((_, c)), Some((at, '\''))) if c != '\'' => at + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{code_only, has_word};

    #[test]
    fn only_code_is_left() {
        let hidden = [
            "a // b\nc",
            "a /* b /* b */ b\n */ c",
            "a \"b \\\" // b\" c",
            "a r#\"b \" b\"# c",
            "a br\"b\\\" c",
            "a b'b' c '\\'' c",
            "a '\\u{b}' c",
        ];
        for text in hidden {
            let code = code_only(text);
            assert!(code.contains('a') && code.contains('c'), "{text}: {code}");
            assert_eq!(code.lines().count(), text.lines().count(), "{text}: {code}");
            // What stands before a byte literal is its letter, not its content.
            assert!(!code.replace("br", "").replace("b ", "").contains('b'), "{text}: {code}");
        }
        for text in ["fn f<'b>(x: &'b str) {}", "r#type + bar", "for r in 'b'..='c' {}"] {
            let code = code_only(text);
            assert!(code.contains("bar") || code.ends_with("{}"), "{text}: {code}");
        }
    }

    #[test]
    fn a_part_of_a_word_is_not_the_word() {
        assert!(has_word("(word)", "word") && has_word("words word", "word"));
        assert!(!has_word("words", "word") && !has_word("a_word", "word"));
    }
}
