//! Whether the files of each crate keep to the table of rooms: no import against it, no circle of files, and no type
//! whose methods are in another room.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::resolve::{Crate, Edge};
use crate::rooms::{CIRCLES_LEFT, HOUSES, House, ROOMS_LEFT, Room};

/// What is checked, and where not yet.
pub(crate) struct Rules<'r> {
    pub(crate) houses: &'r [House],
    pub(crate) circles_left: &'r [&'r str],
    pub(crate) rooms_left: &'r [&'r str],
}

/// The rules of this tree.
pub(crate) const RULES: Rules<'static> =
    Rules { houses: HOUSES, circles_left: CIRCLES_LEFT, rooms_left: ROOMS_LEFT };

/// Checks all files of crates, given with their code, and adds what is found.
pub(crate) fn check(codes: &BTreeMap<&str, String>, rules: &Rules<'_>, findings: &mut Vec<String>) {
    let mut crates: BTreeMap<&str, Vec<(&str, &str, &str)>> = BTreeMap::new();
    for (path, code) in codes {
        if let Some((name, below)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) {
            crates.entry(name).or_default().push((below, path, code));
        }
    }
    for (name, files) in &crates {
        let source = Crate::read(files);
        let edges = source.edges();
        check_circles(&edges, rules.circles_left, findings);
        if !rules.rooms_left.contains(name) {
            let plan = FloorPlan::new(name, files, rules.houses);
            plan.check_edges(&edges, findings);
            plan.check_impls(&source, findings);
        }
    }
}

/// Which room each file of a crate is in.
struct FloorPlan<'a> {
    rooms: Option<&'a [Room]>,
    /// Folders directly below `src`.
    folders: BTreeSet<&'a str>,
    /// The path of `src`, with a slash.
    src: String,
}

impl<'a> FloorPlan<'a> {
    fn new(name: &str, files: &[(&'a str, &'a str, &'a str)], houses: &'a [House]) -> Self {
        let folders = files.iter().filter_map(|(below, ..)| Some(below.split_once('/')?.0)).collect();
        let rooms = houses.iter().find(|house| house.in_crate == name).map(|house| house.rooms);
        Self { rooms, folders, src: format!("crates/{name}/src/") }
    }

    /// The folder of a file, or its name if that is one of a room; none for other files directly below `src`.
    fn room_of<'f>(&self, file: &'f str) -> Option<&'f str> {
        let below = file.strip_prefix(self.src.as_str()).unwrap_or(file);
        let name = below.split(['/', '.']).next()?;
        let is_room = self.folders.contains(name) || self.row(name).is_some();
        is_room.then_some(name)
    }

    fn row(&self, name: &str) -> Option<&'a Room> {
        self.rooms?.iter().find(|room| room.name == name)
    }

    fn check_edges(&self, edges: &[Edge<'_>], findings: &mut Vec<String>) {
        if self.rooms.is_none() {
            return;
        }
        for folder in self.folders.iter().filter(|folder| self.row(folder).is_none()) {
            findings.push(format!("{}{folder}:1: no room of this name is in xtask/src/rooms.rs", self.src));
        }
        let is_top = |file: &str| file.ends_with("/src/lib.rs") || file.ends_with("/src/main.rs");
        for Edge { from, to, line } in edges.iter().filter(|edge| !is_top(edge.from)) {
            let (Some(above), below) = (self.room_of(to), self.room_of(from)) else { continue };
            let may_use = below.and_then(|name| self.row(name)).map_or(&[][..], |room| room.may_use);
            if below != Some(above) && !may_use.contains(&above) {
                let user = below
                    .map_or_else(|| "a file below all rooms".to_owned(), |name| format!("room `{name}`"));
                findings.push(format!(
                    "{from}:{line}: {user} may not use room `{above}` ({to}); see xtask/src/rooms.rs"
                ));
            }
        }
    }

    fn check_impls(&self, source: &Crate<'_>, findings: &mut Vec<String>) {
        for found in source.impls_elsewhere() {
            if self.room_of(found.file) != self.room_of(found.defined_in) {
                let (file, line, name) = (found.file, found.line, found.name);
                let place = found.defined_in;
                findings.push(format!(
                    "{file}:{line}: methods of `{name}`, which another room defines ({place})"
                ));
            }
        }
    }
}

/// Finds the circles of files, but for those whose files are all left for later; of each the number of files and one of
/// its shortest ways around.
fn check_circles(edges: &[Edge<'_>], left: &[&str], findings: &mut Vec<String>) {
    let mut next: BTreeMap<&str, Vec<&Edge<'_>>> = BTreeMap::new();
    for edge in edges {
        next.entry(edge.from).or_default().push(edge);
    }
    // What can be reached from each file. A crate has a few dozen of them.
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|&file| (file, reachable(file, &next))).collect();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for (&file, there) in &reached {
        if !there.contains(file) || known.contains(file) {
            continue;
        }
        let circle: BTreeSet<&str> = there
            .iter()
            .copied()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(file)))
            .collect();
        known.extend(&circle);
        if !circle.iter().all(|file| left.iter().any(|place| file.starts_with(place))) {
            findings.push(shown(&circle, &next));
        }
    }
}

/// The finding for a circle.
fn shown<'a>(circle: &BTreeSet<&'a str>, next: &BTreeMap<&'a str, Vec<&Edge<'a>>>) -> String {
    let ways = circle.iter().filter_map(|&file| around(file, next));
    let shortest = ways.min_by_key(Vec::len).unwrap_or_default();
    let way: Vec<String> = shortest.iter().map(|edge| format!("{}:{}", edge.from, edge.line)).collect();
    let all: Vec<&str> = circle.iter().map(|file| file.rsplit("/src/").next().unwrap_or(file)).collect();
    let (number, way, all) = (circle.len(), way.join(" -> "), all.join(" "));
    let back = shortest.first().map_or("", |edge| edge.from);
    format!("{way} -> {back}: the shortest way around a circle of {number} files: {all}")
}

fn reachable<'a>(from: &'a str, next: &BTreeMap<&'a str, Vec<&Edge<'a>>>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut todo = vec![from];
    while let Some(file) = todo.pop() {
        for edge in next.get(file).into_iter().flatten() {
            if found.insert(edge.to) {
                todo.push(edge.to);
            }
        }
    }
    found
}

/// The shortest way from a file back to it.
fn around<'e, 'a>(start: &'a str, next: &BTreeMap<&'a str, Vec<&'e Edge<'a>>>) -> Option<Vec<&'e Edge<'a>>> {
    let mut came_by: BTreeMap<&str, &Edge<'a>> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for &edge in next.get(file).into_iter().flatten() {
            if came_by.contains_key(edge.to) {
                continue;
            }
            came_by.insert(edge.to, edge);
            if edge.to == start {
                let mut way = vec![edge];
                while way[way.len() - 1].from != start {
                    way.push(came_by[way[way.len() - 1].from]);
                }
                way.reverse();
                return Some(way);
            }
            queue.push_back(edge.to);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::code_only;

    const HOUSES: &[House] = &[House {
        in_crate: "mapped",
        rooms: &[
            Room { name: "store", may_use: &[] },
            Room { name: "request", may_use: &["store"] },
            Room { name: "background", may_use: &["store"] },
            Room { name: "shard", may_use: &["background", "request", "store"] },
        ],
    }];

    /// A crate that keeps to its table, with `planted` put into some files.
    fn findings(planted: &[(&str, &str)]) -> Vec<String> {
        findings_but(planted, &[], &[])
    }

    fn findings_but(planted: &[(&str, &str)], circles_left: &[&str], rooms_left: &[&str]) -> Vec<String> {
        let mut texts = BTreeMap::from([
            ("lib.rs", "mod background; mod request; mod shard; mod store; mod units; pub use shard::Shard;"),
            ("units.rs", "pub struct Block;"),
            (
                "shard.rs",
                "use crate::{request::read, background::scrub}; pub struct Shard; fn f() { read(); scrub() }",
            ),
            ("request/mod.rs", "mod read; pub use self::read::read;"),
            ("request/read.rs", "use crate::store::Store; use crate::units::Block; pub fn read() {}"),
            ("background/mod.rs", "pub fn scrub(store: &crate::store::Store) { store.grow() }"),
            ("store/mod.rs", "mod tables; mod space; pub use self::tables::Store;"),
            ("store/tables.rs", "use super::space::Space; pub struct Store; impl Clone for Store {}"),
            ("store/space.rs", "pub struct Space;"),
        ]);
        let planted: Vec<(&str, String)> = planted
            .iter()
            .map(|(file, text)| (*file, format!("{}\n{text}", texts.get(file).unwrap_or(&""))))
            .collect();
        texts.extend(planted.iter().map(|(file, text)| (*file, text.as_str())));
        let paths: Vec<(String, String)> =
            texts.iter().map(|(file, text)| (format!("crates/mapped/src/{file}"), code_only(text))).collect();
        let codes = paths.iter().map(|(path, code)| (path.as_str(), code.clone())).collect();
        let mut found = Vec::new();
        let rules = Rules { houses: HOUSES, circles_left, rooms_left };
        check(&codes, &rules, &mut found);
        found
    }

    fn assert_found(planted: &[(&str, &str)], wanted: &str) {
        let found = findings(planted);
        assert!(found.len() == 1 && found[0].contains(wanted), "{wanted}: {found:?}");
        assert!(findings_but(planted, &["crates/mapped/"], &["mapped"]).is_empty());
    }

    #[test]
    fn a_crate_that_keeps_to_its_table_has_no_findings() {
        assert_eq!(findings(&[]), Vec::<String>::new());
        let in_a_test = "#[cfg(test)] mod tests { use crate::shard::Shard; }";
        assert_eq!(findings(&[("store/tables.rs", in_a_test)]), Vec::<String>::new());
        let own_room = "use super::tables::Store;\nuse crate::units;";
        assert_eq!(findings(&[("store/flush.rs", own_room)]), Vec::<String>::new());
    }

    #[test]
    fn an_import_against_the_table_is_found() {
        for planted in ["use crate::background::scrub;", "fn f() { crate::background::scrub() }"] {
            let wanted = "request/read.rs:2: room `request` may not use room `background`";
            assert_found(&[("request/read.rs", planted)], wanted);
        }
        assert_found(&[("background/mod.rs", "use super::request::read;")], "may not use room `request`");
        assert_found(&[("units.rs", "use crate::background::{scrub};")], "a file below all rooms");
        assert_found(&[("notes/mod.rs", "")], "no room of this name");
        // By a name that a room offers, though it is of another.
        let planted = [
            ("shard.rs", "pub use crate::background::scrub as rub;"),
            ("store/space.rs", "use crate::shard::rub;"),
        ];
        assert!(
            findings(&planted).iter().any(|found| found.contains("`store` may not use room `background`"))
        );
    }

    #[test]
    fn a_circle_is_found() {
        let planted = [("store/space.rs", "fn f() -> super::Store { }")];
        assert_found(&planted, "crates/mapped/src/store/space.rs:2 -> crates/mapped/src/store/tables.rs:1");
        let planted =
            [("store/space.rs", "use super::a::A;"), ("store/a.rs", "pub struct A; fn f(b: super::b::B) {}")];
        let back = ("store/b.rs", "pub struct B(super::space::Space);");
        assert_found(&[&planted[..], &[back]].concat(), "a circle of 3 files");
    }

    #[test]
    fn a_circle_of_calls_is_found() {
        // Only the type is imported; the way back is a call of its method.
        let planted = [
            ("store/tables.rs", "impl Store { fn put(&self) { self.grow() } }"),
            ("store/grow.rs", "use super::Store; impl Store { pub fn grow(&self) {} }"),
        ];
        assert_found(&planted, "a circle of 2 files");
    }

    #[test]
    fn methods_of_a_type_of_another_room_are_found() {
        let planted = "use crate::store; impl<I: Clone> store::Store<I> { fn f() {} }";
        assert_found(
            &[("background/mod.rs", planted)],
            "background/mod.rs:2: methods of `Store`, which another room",
        );
        let own = "impl Store { fn f() {} } trait Sized2 {} impl Sized2 for crate::units::Block {}";
        assert_eq!(findings(&[("store/tables.rs", own)]), Vec::<String>::new());
    }
}
