//! The tokens of a Rust file: words and signs, each with its line. Comments, literals and lifetimes are left out.

/// A word, or a sign. `::`, `->` and `=>` are one sign each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    /// Counted from 1.
    pub(crate) line: usize,
}

impl Token<'_> {
    /// Whether it is a name, a keyword or a number.
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(is_word_char)
    }
}

/// The tokens of `code`, which [`crate::code::code_only`] has made.
pub(crate) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::with_capacity(code.len() / 4);
    for (i, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let taken = taken(rest, first);
            let (text, tail) = rest.split_at(taken);
            // `r#type` is the name `type`; nothing here needs to tell it from the keyword.
            if text == "r" && tail.starts_with('#') {
                rest = &tail[1..];
                continue;
            }
            if first != '\'' {
                found.push(Token { text, line: i + 1 });
            }
            rest = tail.trim_start();
        }
    }
    found
}

/// Bytes of the token that `rest` begins with.
fn taken(rest: &str, first: char) -> usize {
    let word = |text: &str| text.find(|c| !is_word_char(c)).unwrap_or(text.len());
    match first {
        // A lifetime: literals have been blanked.
        '\'' => 1 + word(&rest[1..]),
        c if is_word_char(c) => word(rest),
        c if ["::", "->", "=>"].iter().any(|sign| rest.starts_with(sign)) => c.len_utf8() + 1,
        c => c.len_utf8(),
    }
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The index of the sign that closes the bracket at `open`, or the end.
pub(crate) fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return i;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The index behind the `>` that closes the `<` at `open`.
pub(crate) fn behind_generics(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "<" => depth += 1,
            ">" => {
                depth -= 1;
                if depth == 0 {
                    return i + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::code_only;

    #[test]
    fn words_and_signs_are_told_apart() {
        let code = code_only("use a::{b, r#c}; // d\nfn f<'a>(x: &'a str) -> u8 { b'x' }");
        let found: Vec<&str> = tokens(&code).iter().map(|token| token.text).collect();
        let wanted = "use a :: { b , c } ; fn f < > ( x : & str ) -> u8 { b }";
        assert_eq!(found.join(" "), wanted);
        assert_eq!(tokens(&code).last().map(|token| token.line), Some(2));
    }

    #[test]
    fn brackets_are_matched() {
        let code = "f(a[b]{c}) x <A<fn() -> B>> y";
        let found = tokens(code);
        assert_eq!(found[closing(&found, 1) + 1].text, "x");
        let open = found.iter().position(|token| token.text == "<").expect("there is one");
        assert_eq!(found[behind_generics(&found, open)].text, "y");
    }
}
