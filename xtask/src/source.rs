//! What one Rust file says: its modules, what they define and import, and what their code names.
//!
//! This is no compiler. It knows items, imports, `impl` blocks, paths with `::`, and calls of methods on `self`, on
//! parameters and on fields whose type is written down. Modules for tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::{Token, behind_generics, closing, tokens};

/// A path as it is written: `crate`, `store`, `Store`.
pub(crate) type Path<'a> = Vec<&'a str>;

/// A module, or the part of a module's file that is an inline module.
#[derive(Debug, Default)]
pub(crate) struct Module<'a> {
    /// Its names from the root of the crate.
    pub(crate) path: Path<'a>,
    /// Names of what is defined here.
    pub(crate) items: BTreeSet<&'a str>,
    /// For each type defined here the fields and the paths of their types, without `Rc` and the like.
    pub(crate) fields: BTreeMap<&'a str, BTreeMap<&'a str, Path<'a>>>,
    pub(crate) imports: Vec<Import<'a>>,
    pub(crate) impls: Vec<Impl<'a>>,
    pub(crate) mentions: Vec<Mention<'a>>,
    /// Words of the code, kept when a `*` was imported.
    pub(crate) words: BTreeMap<&'a str, usize>,
    /// Modules in other files that are for tests.
    pub(crate) test_modules: Vec<&'a str>,
}

/// One name that a `use` brings in.
#[derive(Debug)]
pub(crate) struct Import<'a> {
    pub(crate) path: Path<'a>,
    /// The name here; `*` for all that is in the module at the path.
    pub(crate) name: &'a str,
    pub(crate) is_public: bool,
    pub(crate) line: usize,
}

/// An inherent `impl`.
#[derive(Debug)]
pub(crate) struct Impl<'a> {
    pub(crate) of: Path<'a>,
    pub(crate) methods: Vec<&'a str>,
    pub(crate) line: usize,
}

/// What code names.
#[derive(Debug)]
pub(crate) enum Mention<'a> {
    /// A path, `Self` replaced by the type.
    Path { path: Path<'a>, line: usize },
    /// `root.field.field.method()`, where the type of the root is known.
    Call { root: Path<'a>, fields: Path<'a>, method: &'a str, line: usize },
}

/// Types that give their content's methods.
const WRAPPERS: [&str; 8] = ["Rc", "Arc", "Box", "Option", "RefCell", "Weak", "Mutex", "OnceCell"];
/// Methods that lead to the content of a wrapper.
const OPENERS: [&str; 9] =
    ["borrow", "borrow_mut", "as_ref", "as_mut", "clone", "upgrade", "lock", "unwrap", "get_mut"];

/// Reads a file whose code, without comments and literals, is `code`. The first module is the file's own.
pub(crate) fn read<'a>(path: Path<'a>, code: &'a str) -> Vec<Module<'a>> {
    let tokens = tokens(code);
    let mut reader = Reader { tokens: &tokens, at: 0, modules: vec![Module { path, ..Module::default() }] };
    reader.items(tokens.len(), 0);
    reader.modules
}

struct Reader<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
    modules: Vec<Module<'a>>,
}

impl<'a> Reader<'_, 'a> {
    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn line(&self, at: usize) -> usize {
        self.tokens.get(at).map_or(0, |token| token.line)
    }

    /// Reads the items of a module, up to `end`.
    fn items(&mut self, end: usize, module: usize) {
        while self.at < end {
            let is_test = self.attributes();
            let is_public = self.visibility();
            let from = self.at;
            let keyword = self.keyword();
            let name = self.text(self.at + 1);
            let behind = self.behind_item(from, keyword).min(end);
            match keyword {
                "mod" if self.text(self.at + 2) == ";" => {
                    if is_test {
                        self.modules[module].test_modules.push(name);
                    }
                }
                _ if is_test => {}
                "mod" => {
                    let mut path = self.modules[module].path.clone();
                    path.push(name);
                    self.modules.push(Module { path, ..Module::default() });
                    self.at += 3;
                    self.items(behind.saturating_sub(1), self.modules.len() - 1);
                }
                "use" => self.import(from + 1, &mut Vec::new(), is_public, module),
                "impl" => self.implementation(behind, module),
                "trait" => {
                    self.modules[module].items.insert(name);
                    self.members(from, behind, None, module);
                }
                "fn" => {
                    self.modules[module].items.insert(name);
                    self.code(self.at, behind, None, module);
                }
                "macro_rules" => {
                    let name = self.text(self.at + 2);
                    self.modules[module].items.insert(name);
                    self.code(self.at + 3, behind, None, module);
                }
                "struct" | "union" | "enum" | "type" | "const" | "static" => {
                    self.modules[module].items.insert(name);
                    if keyword == "struct" {
                        let fields = self.typed(self.at + 2, behind);
                        self.modules[module].fields.insert(name, fields);
                    }
                    self.code(self.at + 2, behind, Some(vec![name]), module);
                }
                _ => self.code(from, behind, None, module),
            }
            self.at = behind.max(from + 1);
        }
    }

    /// Goes behind the attributes here; whether one of them says that what follows is for tests.
    fn attributes(&mut self) -> bool {
        let mut is_test = false;
        while self.text(self.at) == "#" {
            let open = self.at + 1 + usize::from(self.text(self.at + 1) == "!");
            let close = closing(self.tokens, open);
            let words: Vec<&str> = self.tokens[open..close].iter().map(|token| token.text).collect();
            is_test |= words.get(1) == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not");
            self.at = close + 1;
        }
        is_test
    }

    fn visibility(&mut self) -> bool {
        let is_public = self.text(self.at) == "pub";
        if is_public {
            self.at += 1;
            if self.text(self.at) == "(" {
                self.at = closing(self.tokens, self.at) + 1;
            }
        }
        is_public
    }

    /// Goes to the word that says what kind of item this is.
    fn keyword(&mut self) -> &'a str {
        loop {
            let next = self.text(self.at + 1);
            match self.text(self.at) {
                "const" | "extern" if !matches!(next, "fn" | "unsafe" | "async" | "extern") => break,
                "const" | "async" | "unsafe" | "extern" | "default" if !next.is_empty() => self.at += 1,
                _ => break,
            }
        }
        self.text(self.at)
    }

    /// The index behind the item that begins at `from`.
    fn behind_item(&self, from: usize, keyword: &str) -> usize {
        let ends_with_brace = !matches!(keyword, "use" | "const" | "static" | "type");
        let mut at = from;
        while at < self.tokens.len() {
            match self.text(at) {
                ";" => return at + 1,
                "{" if ends_with_brace => return closing(self.tokens, at) + 1,
                "(" | "[" | "{" => at = closing(self.tokens, at),
                "}" => return at + 1,
                _ => {}
            }
            at += 1;
        }
        at
    }

    /// Reads a tree of imports, whose paths begin with `head`.
    fn import(&mut self, from: usize, head: &mut Path<'a>, is_public: bool, module: usize) {
        let (depth, mut at) = (head.len(), from);
        loop {
            match self.text(at) {
                "{" => {
                    let close = closing(self.tokens, at);
                    let mut part = at + 1;
                    while part < close {
                        self.import(part, head, is_public, module);
                        part = self.behind_part(part, close);
                    }
                    break;
                }
                "::" => at += 1,
                word => {
                    let line = self.line(at);
                    let next = self.text(at + 1);
                    if next == "::" {
                        head.push(word);
                        at += 2;
                        continue;
                    }
                    let mut path = head.clone();
                    if !matches!(word, "*" | "self") || path.is_empty() {
                        path.push(word);
                    }
                    let name = match (word, next) {
                        (_, "as") => self.text(at + 2),
                        ("self", _) => path[path.len() - 1],
                        (word, _) => word,
                    };
                    self.modules[module].imports.push(Import { path, name, is_public, line });
                    break;
                }
            }
        }
        head.truncate(depth);
    }

    /// The index behind the next comma of a list that ends at `close`.
    fn behind_part(&self, from: usize, close: usize) -> usize {
        let mut at = from;
        while at < close {
            match self.text(at) {
                "," => return at + 1,
                "{" => at = closing(self.tokens, at),
                _ => {}
            }
            at += 1;
        }
        close
    }

    fn implementation(&mut self, behind: usize, module: usize) {
        let line = self.line(self.at);
        let mut at = self.at + 1;
        if self.text(at) == "<" {
            at = behind_generics(self.tokens, at);
        }
        let (first, open) = (at, self.find(at, behind, "{"));
        let of_trait = (first..open).find(|&i| self.text(i) == "for" && self.text(i + 1) != "<");
        let of = self.type_head(of_trait.map_or(first, |at| at + 1));
        self.code(first, open, Some(of.clone()), module);
        let methods = self.members(open, behind, Some(of.clone()), module);
        if of_trait.is_none() {
            self.modules[module].impls.push(Impl { of, methods, line });
        }
    }

    /// Reads what is in the braces of an `impl` or a trait; the names of its functions.
    fn members(&mut self, from: usize, behind: usize, of: Option<Path<'a>>, module: usize) -> Vec<&'a str> {
        let open = self.find(from, behind, "{");
        self.code(from, open, of.clone(), module);
        self.at = open + 1;
        let mut functions = Vec::new();
        while self.at + 1 < behind {
            let is_test = self.attributes();
            self.visibility();
            let from = self.at;
            let keyword = self.keyword();
            let behind = self.behind_item(from, keyword).min(behind);
            if !is_test {
                if keyword == "fn" {
                    functions.push(self.text(self.at + 1));
                }
                self.code(from, behind, of.clone(), module);
            }
            self.at = behind.max(from + 1);
        }
        functions
    }

    fn find(&self, from: usize, end: usize, sign: &str) -> usize {
        (from..end).find(|&i| self.text(i) == sign).unwrap_or(end)
    }

    /// The path of the type that is written at `at`, without references and wrappers.
    fn type_head(&self, mut at: usize) -> Path<'a> {
        loop {
            while matches!(self.text(at), "&" | "mut" | "dyn" | "impl" | "::") {
                at += 1;
            }
            let path = self.path(at);
            let behind = at + (2 * path.len()).saturating_sub(1);
            let is_wrapper = path.last().is_some_and(|name| WRAPPERS.contains(name));
            if !is_wrapper || self.text(behind) != "<" {
                return path;
            }
            at = behind + 1;
        }
    }

    /// The words at `at` that `::` connects.
    fn path(&self, mut at: usize) -> Path<'a> {
        let mut path = Vec::new();
        while self.tokens.get(at).is_some_and(Token::is_word) {
            path.push(self.text(at));
            if self.text(at + 1) != "::" {
                break;
            }
            at += 2;
        }
        path
    }

    /// The names with a type behind them: parameters or fields.
    fn typed(&self, from: usize, end: usize) -> BTreeMap<&'a str, Path<'a>> {
        let names = (from..end).filter(|&i| self.text(i + 1) == ":" && self.tokens[i].is_word());
        names.map(|i| (self.text(i), self.type_head(i + 2))).filter(|(_, path)| !path.is_empty()).collect()
    }

    /// Notes what the code from `from` to `end` names; `of` is what `self` is there.
    fn code(&mut self, from: usize, end: usize, of: Option<Path<'a>>, module: usize) {
        let parameters = match (from..end.min(from + 6)).find(|&i| self.text(i) == "fn") {
            Some(_) => self.typed(from, self.find(from, end, "{")),
            None => BTreeMap::new(),
        };
        let mut at = from;
        while at < end {
            let (text, next) = (self.text(at), self.text(at + 1));
            let before = at.checked_sub(1).map_or("", |i| self.text(i));
            if text == "use" {
                // In a function; `use<..>` is no import.
                if next != "<" {
                    self.import(at + 1, &mut Vec::new(), false, module);
                    at = self.find(at, end, ";");
                }
            } else if self.tokens[at].is_word() {
                let line = self.line(at);
                self.modules[module].words.entry(text).or_insert(line);
                if !matches!(before, "." | "::") {
                    let root = if text == "self" { of.clone() } else { parameters.get(text).cloned() };
                    match (next, root) {
                        ("::", _) => self.note_path(at, &of, module),
                        (".", Some(root)) => self.note_call(at, root, module),
                        _ => {}
                    }
                }
            }
            at += 1;
        }
    }

    fn note_path(&mut self, at: usize, of: &Option<Path<'a>>, module: usize) {
        let (mut path, line) = (self.path(at), self.line(at));
        if path[0] == "Self" {
            let Some(of) = of else { return };
            path.splice(..1, of.iter().copied());
        }
        self.modules[module].mentions.push(Mention::Path { path, line });
    }

    fn note_call(&mut self, root_at: usize, root: Path<'a>, module: usize) {
        let mut fields = Vec::new();
        let mut at = root_at + 1;
        while self.text(at) == "." {
            let (name, line) = (self.text(at + 1), self.line(at + 1));
            match self.text(at + 2) {
                "(" if OPENERS.contains(&name) && self.text(at + 3) == ")" => at += 4,
                "(" | "::" => {
                    self.modules[module].mentions.push(Mention::Call { root, fields, method: name, line });
                    return;
                }
                "." => {
                    fields.push(name);
                    at += 2;
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(code: &str) -> Vec<Module<'_>> {
        read(vec!["m"], code)
    }

    #[test]
    fn imports_are_trees() {
        let read = module("pub(crate) use a::{self, b::{C as D, e::*}, F}; use crate::G;");
        let found: Vec<String> = read[0]
            .imports
            .iter()
            .map(|i| format!("{} {} {}", i.path.join("::"), i.name, i.is_public))
            .collect();
        let wanted = ["a a true", "a::b::C D true", "a::b::e * true", "a::F F true", "crate::G G false"];
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_is_for_tests_is_left_out() {
        let read = module(
            "#[cfg(test)] mod tests; #[cfg(test)] mod more { use a::B; } #[cfg(not(test))] use c::D;
             #[cfg(test)] use e::F; impl X { #[cfg(test)] fn f() { g::h(); } fn i() {} }",
        );
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].test_modules, ["tests"]);
        assert_eq!(read[0].imports.len(), 1);
        assert_eq!(read[0].impls[0].methods, ["i"]);
        assert!(read[0].mentions.is_empty());
    }

    #[test]
    fn items_and_inline_modules_are_known() {
        let read = module(
            "pub const fn f() {} const A: [u8; { 1 }] = { 2 }; static B: u8 = 1; struct C(u8); enum D { E }
             macro_rules! g { () => {} } mod h { type I = u8; fn j() -> impl K { } } unsafe trait L {} h! { x }",
        );
        assert_eq!(read[0].items.iter().copied().collect::<Vec<_>>(), ["A", "B", "C", "D", "L", "f", "g"]);
        assert_eq!((read[1].path.join("::"), read[1].items.len()), ("m::h".to_owned(), 2));
    }

    #[test]
    fn calls_are_followed_as_far_as_types_are_written() {
        let read = module(
            "struct S { t: Rc<RefCell<crate::t::T>> }
             impl<F: Fn() -> u8> S { fn f(&self, u: &mut U<F>) { self.t.borrow_mut().g(); u.h::<u8>(); v.i(); Self::j() } }
             impl Clone for S { fn clone(&self) -> S { self.k() } }",
        );
        assert_eq!(read[0].fields["S"]["t"], ["crate", "t", "T"]);
        assert_eq!(read[0].impls.len(), 1);
        let calls: Vec<String> = read[0]
            .mentions
            .iter()
            .map(|mention| match mention {
                Mention::Path { path, .. } => path.join("::"),
                Mention::Call { root, fields, method, .. } => {
                    format!("{} {} {method}", root.join("::"), fields.join("."))
                }
            })
            .collect();
        assert_eq!(calls, ["crate::t::T", "S t g", "U  h", "S::j", "S  k"]);
    }
}
