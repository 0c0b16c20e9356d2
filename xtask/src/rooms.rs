//! The table of crates and rooms: which may use which. `cargo xtask tidy` holds the sources to it; ARCHITECTURE.md has the
//! reasons.

/// What a crate may depend on, of this workspace.
pub(crate) struct CrateRow {
    pub(crate) name: &'static str,
    pub(crate) may_use: &'static [&'static str],
}

/// The rooms of one crate. A room is a folder below `src`, or a file there. `lib.rs` and `main.rs` may use all of them.
/// Any other file directly below `src` that is no room lies below all rooms: each may use it, and it may use none.
pub(crate) struct House {
    pub(crate) in_crate: &'static str,
    pub(crate) rooms: &'static [Room],
}

/// A room and those that it may use.
pub(crate) struct Room {
    pub(crate) name: &'static str,
    pub(crate) may_use: &'static [&'static str],
}

const fn uses(name: &'static str, may_use: &'static [&'static str]) -> CrateRow {
    CrateRow { name, may_use }
}

const fn room(name: &'static str, may_use: &'static [&'static str]) -> Room {
    Room { name, may_use }
}

/// Every crate below `crates/`.
pub(crate) const CRATES: &[CrateRow] = &[
    uses("core", &[]),
    uses("layout", &[]),
    uses("format", &["core", "layout"]),
    uses("members", &["core", "layout", "format"]),
    uses("mapped", &["core", "layout", "format", "members"]),
    uses("array", &["core", "layout", "format", "members"]),
    uses("engine", &["core", "layout", "format", "members", "mapped", "array"]),
    uses("devices", &[]),
    uses("reliability", &[]),
    uses("topology", &[]),
    uses("workload", &[]),
    uses("frontend", &["core"]),
    // layout: for an example that measures parity beside another implementation.
    uses("uring", &["core", "devices", "layout"]),
    uses("sim", &["core", "layout", "format", "members", "mapped", "array", "engine", "devices"]),
    uses(
        "experiment",
        &[
            "core",
            "layout",
            "format",
            "members",
            "mapped",
            "array",
            "engine",
            "devices",
            "reliability",
            "sim",
            "workload",
        ],
    ),
    uses(
        "sinew",
        &[
            "core",
            "layout",
            "format",
            "members",
            "mapped",
            "array",
            "engine",
            "devices",
            "frontend",
            "topology",
            "uring",
            "sim",
            "workload",
            "experiment",
        ],
    ),
];

const ALL_OF_AN_ARRAY: &[&str] = &[
    "recovery",
    "background",
    "reshape",
    "request",
    "stripe",
    "md_dirty",
    "journal",
    "forms",
    "bitmap",
    "state",
];

/// The crates that are divided into rooms.
pub(crate) const HOUSES: &[House] = &[
    House {
        in_crate: "mapped",
        rooms: &[
            room("store", &[]),
            room("stripe", &["store"]),
            room("request", &["stripe", "store"]),
            room("background", &["stripe", "store"]),
            room("recovery", &["stripe", "store"]),
            room("inspect", &["recovery", "background", "request", "stripe", "store"]),
            room("shard", &["inspect", "recovery", "background", "request", "stripe", "store"]),
            room("fuzzing", &["store"]),
        ],
    },
    House {
        in_crate: "array",
        rooms: &[
            room("state", &[]),
            room("bitmap", &["state"]),
            room("forms", &["state"]),
            room("journal", &["forms", "bitmap", "state"]),
            room("md_dirty", &["journal", "forms", "bitmap", "state"]),
            room("stripe", &["md_dirty", "journal", "forms", "bitmap", "state"]),
            room("request", &["stripe", "md_dirty", "journal", "forms", "bitmap", "state"]),
            room("reshape", &["stripe", "md_dirty", "journal", "forms", "bitmap", "state"]),
            room("background", &["stripe", "md_dirty", "journal", "forms", "bitmap", "state"]),
            room("recovery", &["stripe", "md_dirty", "journal", "forms", "bitmap", "state"]),
            room("inspect", ALL_OF_AN_ARRAY),
            room(
                "shard",
                &[
                    "inspect",
                    "recovery",
                    "background",
                    "reshape",
                    "request",
                    "stripe",
                    "md_dirty",
                    "journal",
                    "forms",
                    "bitmap",
                    "state",
                ],
            ),
        ],
    },
    House {
        in_crate: "experiment",
        rooms: &[
            room("file", &[]),
            room("plan", &["file"]),
            room("system", &["plan", "file"]),
            room("results", &["plan", "file"]),
            room("run", &["results", "system", "plan", "file"]),
            room("batch", &["run", "results", "system", "plan", "file"]),
            room("report", &["results", "plan", "file"]),
        ],
    },
    House {
        in_crate: "sinew",
        rooms: &[
            room("protocol", &[]),
            room("pool", &[]),
            room("client", &["protocol"]),
            room("report", &["protocol"]),
            room("daemon", &["pool", "protocol"]),
            room("bench", &["pool", "protocol"]),
            room("replay", &["client", "pool", "protocol"]),
            room("commands", &["replay", "bench", "daemon", "report", "client", "pool", "protocol"]),
        ],
    },
];

/// Edges between crates that are still to go: the first uses the second.
pub(crate) const EDGES_LEFT: &[(&str, &str)] = &[];
/// Circles of files that are still to be opened: beginnings of paths. A circle all of whose files begin so is no finding.
pub(crate) const CIRCLES_LEFT: &[&str] = &[];
/// Crates whose files are still to be put into the rooms above, or that still extend a type outside of its room.
pub(crate) const ROOMS_LEFT: &[&str] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row uses rows above it only, so there is no circle in the table.
    fn assert_downwards<'a>(rows: impl Iterator<Item = (&'a str, &'a [&'a str])>) {
        let mut above = Vec::new();
        for (name, may_use) in rows {
            assert!(may_use.iter().all(|used| above.contains(used)), "{name} uses what is not above it");
            assert!(!above.contains(&name), "{name} is there twice");
            above.push(name);
        }
    }

    fn house(name: &str) -> &'static House {
        HOUSES.iter().find(|house| house.in_crate == name).expect("a house")
    }

    #[test]
    fn the_tables_have_no_circles() {
        assert_downwards(CRATES.iter().map(|row| (row.name, row.may_use)));
        for house in HOUSES {
            assert_downwards(house.rooms.iter().map(|room| (room.name, room.may_use)));
        }
    }

    #[test]
    fn requests_and_background_work_do_not_know_each_other() {
        for name in ["mapped", "array"] {
            for room in house(name).rooms {
                assert!(room.name != "request" || !room.may_use.contains(&"background"));
                assert!(room.name != "background" || !room.may_use.contains(&"request"));
            }
        }
    }

    #[test]
    fn the_two_kinds_of_pool_do_not_know_each_other() {
        let uses = |name: &str| CRATES.iter().find(|row| row.name == name).expect("a crate").may_use;
        assert!(!uses("mapped").contains(&"array") && !uses("array").contains(&"mapped"));
    }
}
