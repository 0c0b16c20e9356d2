//! From names to files: which file of a crate defines what another one imports, names or calls.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Import, Mention, Module, read};

/// One file needs another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    /// Where in `from`.
    pub(crate) line: usize,
}

/// An inherent `impl` in another file than its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImplElsewhere<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: usize,
    pub(crate) name: &'a str,
    /// The file that defines the type.
    pub(crate) defined_in: &'a str,
}

/// The modules of one crate.
pub(crate) struct Crate<'a> {
    modules: Vec<Module<'a>>,
    /// The file of each module.
    files: Vec<&'a str>,
    by_path: BTreeMap<Vec<&'a str>, usize>,
    /// The files whose `impl` blocks define a method of a type.
    methods: BTreeMap<(usize, &'a str, &'a str), Vec<&'a str>>,
    /// Names under search through the glob imports of a module. The search for the path of a glob import leaves out the globs that
    /// it came from: the time would be exponential in their number.
    through_globs: RefCell<BTreeSet<(usize, &'a str)>>,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found<'a> {
    Module(usize),
    Item { module: usize, name: &'a str },
}

/// Longest chain of re-exports that is followed.
const CHAIN_MAX: usize = 16;

impl<'a> Crate<'a> {
    /// Reads a crate. `files` are the paths below its `src`, with each file's path in the tree and its code.
    pub(crate) fn read(files: &[(&'a str, &'a str, &'a str)]) -> Self {
        let mut all: Vec<(Module<'a>, &'a str)> = Vec::new();
        for &(below, file, code) in files {
            all.extend(read(module_path(below), code).into_iter().map(|module| (module, file)));
        }
        let mut tests: BTreeSet<Vec<&str>> = BTreeSet::new();
        for (module, _) in &all {
            tests.extend(module.test_modules.iter().map(|name| [&module.path[..], &[*name]].concat()));
        }
        all.retain(|(module, _)| !(1..=module.path.len()).any(|n| tests.contains(&module.path[..n])));
        let (modules, files): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let by_path = modules.iter().enumerate().map(|(i, module)| (module.path.clone(), i)).collect();
        let mut this =
            Self { modules, files, by_path, methods: BTreeMap::new(), through_globs: RefCell::default() };
        let mut methods: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (i, block) in this.blocks() {
            if let Some(Found::Item { module, name }) = this.resolve(i, &block.of, 0) {
                for method in &block.methods {
                    methods.entry((module, name, *method)).or_default().push(this.files[i]);
                }
            }
        }
        this.methods = methods;
        this
    }

    fn blocks(&self) -> impl Iterator<Item = (usize, &crate::source::Impl<'a>)> {
        self.modules
            .iter()
            .enumerate()
            .flat_map(|(i, module)| module.impls.iter().map(move |block| (i, block)))
    }

    /// Inherent `impl` blocks of types that another file defines.
    pub(crate) fn impls_elsewhere(&self) -> Vec<ImplElsewhere<'a>> {
        let mut found = Vec::new();
        for (i, block) in self.blocks() {
            if let Some(Found::Item { module, name }) = self.resolve(i, &block.of, 0)
                && self.files[module] != self.files[i]
            {
                let (file, defined_in) = (self.files[i], self.files[module]);
                found.push(ImplElsewhere { file, line: block.line, name, defined_in });
            }
        }
        found
    }

    /// What each file needs of the others, once for each pair, at its first line.
    pub(crate) fn edges(&self) -> Vec<Edge<'a>> {
        let mut first: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (i, module) in self.modules.iter().enumerate() {
            let from = self.files[i];
            let mut note = |to: &'a str, line: usize| {
                if to != from {
                    let at = first.entry((from, to)).or_insert(line);
                    *at = line.min(*at);
                }
            };
            for import in &module.imports {
                self.imported(i, import).into_iter().for_each(|(to, line)| note(to, line));
            }
            for mention in &module.mentions {
                self.mentioned(i, mention).into_iter().for_each(|(to, line)| note(to, line));
            }
        }
        first.into_iter().map(|((from, to), line)| Edge { from, to, line }).collect()
    }

    /// The files that an import leads to. A module that offers what is inside of it needs nothing.
    fn imported(&self, at: usize, import: &Import<'a>) -> Vec<(&'a str, usize)> {
        let is_inside = |module: usize| self.modules[module].path.starts_with(&self.modules[at].path);
        let target =
            if import.name == "*" { &import.path[..import.path.len() - 1] } else { &import.path[..] };
        match self.resolve(at, target, 0) {
            Some(Found::Item { module, .. }) if !(import.is_public && is_inside(module)) => {
                vec![(self.files[module], import.line)]
            }
            // What is needed of a module that was imported whole, its names say.
            Some(Found::Module(from)) if import.name == "*" && !import.is_public => {
                let words = self.modules[at].words.iter();
                let found = words.filter_map(|(word, line)| match self.lookup(from, word, 0)? {
                    Found::Item { module, .. } => Some((self.files[module], *line)),
                    Found::Module(_) => None,
                });
                found.collect()
            }
            _ => Vec::new(),
        }
    }

    fn mentioned(&self, at: usize, mention: &Mention<'a>) -> Vec<(&'a str, usize)> {
        match mention {
            Mention::Path { path, line } => {
                let Some(Found::Item { module, name }) = self.resolve(at, path, 0) else { return Vec::new() };
                let last = path[path.len() - 1];
                let of_type = self.methods.get(&(module, name, last)).into_iter().flatten();
                std::iter::once(self.files[module])
                    .chain(of_type.copied())
                    .map(|file| (file, *line))
                    .collect()
            }
            Mention::Call { root, fields, method, line } => {
                let mut of = self.resolve(at, root, 0);
                for field in fields {
                    let Some(Found::Item { module, name }) = of else { return Vec::new() };
                    let path = self.modules[module].fields.get(name).and_then(|all| all.get(field));
                    of = path.and_then(|path| self.resolve(module, path, 0));
                }
                let Some(Found::Item { module, name }) = of else { return Vec::new() };
                let files = self.methods.get(&(module, name, *method)).into_iter().flatten();
                files.map(|file| (*file, *line)).collect()
            }
        }
    }

    /// Where a path leads that is written in module `at`; none when that is outside of the crate.
    fn resolve(&self, at: usize, path: &[&'a str], chain: usize) -> Option<Found<'a>> {
        let (mut found, mut rest) = (Found::Module(at), path);
        loop {
            let Found::Module(module) = found else { return Some(found) };
            let Some((&name, tail)) = rest.split_first() else { return Some(found) };
            let is_first = rest.len() == path.len();
            found = match name {
                "crate" => Found::Module(self.module(&[])?),
                "self" => found,
                "super" => {
                    let here = &self.modules[module].path;
                    Found::Module(self.module(&here[..here.len().checked_sub(1)?])?)
                }
                name => match self.lookup_before(module, name, !tail.is_empty(), chain) {
                    Some(found) => found,
                    None if is_first => return None,
                    // What a macro has defined, or what another crate has and this module offers.
                    None => Found::Item { module, name },
                },
            };
            rest = tail;
        }
    }

    fn module(&self, path: &[&'a str]) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    fn lookup(&self, module: usize, name: &'a str, chain: usize) -> Option<Found<'a>> {
        self.lookup_before(module, name, false, chain)
    }

    /// What a name is in a module. A module may be named like a function: more of the path behind it tells.
    fn lookup_before(&self, at: usize, name: &'a str, more: bool, chain: usize) -> Option<Found<'a>> {
        let module = &self.modules[at];
        let inner = || self.module(&[&module.path[..], &[name]].concat()).map(Found::Module);
        let item = || module.items.contains(name).then_some(Found::Item { module: at, name });
        let imported = || {
            let named = module.imports.iter().filter(|import| import.name == name && chain < CHAIN_MAX);
            // `use a;` says nothing about what `a` is.
            let mut named = named.filter(|import| import.path[..] != [name]);
            named.find_map(|import| self.resolve(at, &import.path, chain + 1))
        };
        let by_name = if more {
            inner().or_else(item).or_else(imported)
        } else {
            item().or_else(imported).or_else(inner)
        };
        by_name.or_else(|| {
            if !self.through_globs.borrow_mut().insert((at, name)) {
                return None;
            }
            let mut globs = module.imports.iter().filter(|import| import.name == "*" && chain < CHAIN_MAX);
            let found = globs.find_map(|glob| match self.resolve(at, &glob.path, chain + 1)? {
                Found::Module(from) if from != at => self.lookup_before(from, name, more, chain + 1),
                _ => None,
            });
            self.through_globs.borrow_mut().remove(&(at, name));
            found
        })
    }
}

/// The module of a file below `src`.
fn module_path(below: &str) -> Vec<&str> {
    let mut path: Vec<&str> = below.trim_end_matches(".rs").split('/').collect();
    if path.last() == Some(&"mod") || matches!(path[..], ["lib" | "main"]) {
        path.pop();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&'static str, &'static str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|&(file, code)| (file, file, code)).collect();
        let found = Crate::read(&files).edges();
        found.iter().map(|edge| format!("{}:{} {}", edge.from, edge.line, edge.to)).collect()
    }

    #[test]
    fn a_name_leads_to_the_file_that_defines_it() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b; mod c; pub use b::inner::Deep as Face;"),
            (
                "a.rs",
                "use std::fmt;\nuse crate::Face;\nuse crate::b::{self, offered};\nfn f() { b::made(); fmt::g() }",
            ),
            ("b/mod.rs", "pub mod inner; pub use crate::c::offered; made! { fn made() {} }"),
            ("b/inner.rs", "pub struct Deep;\nfn up() { super::made(); self::up() }"),
            (
                "c.rs",
                "pub fn offered() {}\nmod within { use super::super::b::*;\nfn f() { Deep; inner::Deep } }",
            ),
        ]);
        let wanted = ["a.rs:4 b/mod.rs", "a.rs:2 b/inner.rs", "a.rs:3 c.rs", "b/inner.rs:2 b/mod.rs"];
        let wanted = [&wanted[..], &["b/mod.rs:1 c.rs", "c.rs:3 b/inner.rs"]].concat();
        let (found, wanted): (BTreeSet<_>, BTreeSet<_>) =
            (found.into_iter().collect(), wanted.iter().map(|&s| s.to_owned()).collect());
        assert_eq!(found, wanted);
    }

    #[test]
    fn several_globs_of_one_module_end() {
        let globs = ["a", "b", "c", "d", "e"].map(|name| format!("use {name}::*; use super::{name}::*;\n"));
        let code: &'static str = (globs.concat() + "fn f() { g(); }").leak();
        assert_eq!(edges(&[("lib.rs", "mod x;"), ("x.rs", code)]), Vec::<String>::new());
    }

    #[test]
    fn calls_lead_to_the_file_of_the_method() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "pub struct A; impl A { fn f(&self) { self.g() } }"),
            ("b.rs", "use crate::a::A;\nimpl A { fn g(&self) {} }"),
            ("c.rs", "struct C { a: crate::a::A }\nimpl C { fn h(&self) { self.a.g(); self.a.unknown() } }"),
        ]);
        assert_eq!(
            found,
            ["a.rs:1 b.rs", "b.rs:2 a.rs", "c.rs:1 a.rs", "c.rs:2 b.rs"]
                .map(|s| s.replace("b.rs:2 a", "b.rs:1 a"))
        );
    }

    #[test]
    fn modules_for_tests_are_no_part_of_it() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[cfg(test)] mod tests; pub fn f() {}"),
            ("a/tests.rs", "use crate::b::g;"),
            ("b.rs", "fn g() { crate::a::f() }"),
        ]);
        assert_eq!(found, ["b.rs:1 a.rs"]);
    }

    #[test]
    fn aliases_that_lead_nowhere_end() {
        let found = edges(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "use b::c; use c::b; use super::a::*; fn f() { b::c() }"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
