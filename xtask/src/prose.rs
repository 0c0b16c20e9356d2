//! Words that stand where a technical term belongs: pronouns for unnamed persons, and counts in words.

/// Phrases that no file contains, each with what to write instead.
const BANNED: &[(&[&str], &str)] = &[
    (&["somebody"], PERSON),
    (&["someone"], PERSON),
    (&["nobody"], PERSON),
    (&["no", "one"], PERSON),
    (&["anybody"], PERSON),
    (&["everybody"], PERSON),
    (&["whoever"], PERSON),
    (&["who"], PERSON),
    (&["so", "many"], COUNT),
    (&["so", "long"], COUNT),
];
const PERSON: &str = "name the task, request, process or member that is meant";
const COUNT: &str = "name the number or the time, or the parameter that holds it";

/// Files that are checked.
const ENDINGS: [&str; 6] = [".rs", ".md", ".toml", ".txt", ".py", ".sh"];
/// Beginnings of paths that are not checked: this file, and folders still to be rewritten.
const UNCHECKED: [&str; 1] = ["xtask/src/prose.rs"];

/// Finds the banned phrases of a file, also those that a line break divides.
pub(crate) fn check(path: &str, text: &str, find: &mut impl FnMut(usize, &str)) {
    let is_checked = ENDINGS.iter().any(|ending| path.ends_with(ending));
    if !is_checked || UNCHECKED.iter().any(|beginning| path.starts_with(beginning)) {
        return;
    }
    let words: Vec<(usize, String)> = text
        .lines()
        .enumerate()
        .flat_map(|(i, line)| {
            let words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
            words.map(move |word| (i + 1, word.to_ascii_lowercase()))
        })
        .collect();
    for (i, &(line, _)) in words.iter().enumerate() {
        for (phrase, instead) in BANNED {
            let found = words[i..].iter().map(|(_, word)| word.as_str()).take(phrase.len());
            if found.eq(phrase.iter().copied()) {
                find(line, &format!("\"{}\"; {instead}", phrase.join(" ")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<(usize, String)> {
        let mut all = Vec::new();
        check(path, text, &mut |line, what| all.push((line, what.to_owned())));
        all
    }

    #[test]
    fn banned_words_are_found_with_their_line() {
        let text = "//! A read.\n/// Nobody's, for so\n/// many blocks.\nfn what_everybody_knows() {}\n";
        let found = findings("a.rs", text);
        let short: Vec<(usize, &str)> =
            found.iter().map(|(line, what)| (*line, what.split(';').next().unwrap())).collect();
        assert_eq!(short, [(2, "\"nobody\""), (2, "\"so many\""), (4, "\"everybody\"")]);
    }

    #[test]
    fn other_words_and_other_files_pass() {
        assert_eq!(findings("a.rs", "the whole of it, one as long as many; no other one"), []);
        assert_eq!(findings("a.svg", "who"), []);
        assert_eq!(findings("xtask/src/prose.rs", "who"), []);
    }
}
