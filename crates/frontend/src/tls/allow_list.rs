//! Which client may use which exports.

use std::collections::{BTreeMap, BTreeSet};

/// The exports that a client may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// All, also those to come.
    All,
    /// Those of these names.
    Only(BTreeSet<String>),
}

impl Grant {
    /// Whether it has this export.
    pub fn covers(&self, export: &str) -> bool {
        match self {
            Grant::All => true,
            Grant::Only(exports) => exports.contains(export),
        }
    }
}

/// What each client may use, by the names in its certificate. A client that has no name in the list may use nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(BTreeMap<String, Grant>);

impl AllowList {
    /// Lets the clients of this name use an export, or with `*` all.
    pub fn allow(&mut self, client: &str, export: &str) {
        let grant = self.0.entry(client.to_owned()).or_insert_with(|| Grant::Only(BTreeSet::new()));
        match grant {
            Grant::All => {}
            grant if export == "*" => *grant = Grant::All,
            Grant::Only(exports) => {
                exports.insert(export.to_owned());
            }
        }
    }

    /// Whether it has no client.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a client with these names may use: what any of its names may.
    pub fn grant(&self, names: &[String]) -> Grant {
        let mut all = BTreeSet::new();
        for grant in names.iter().filter_map(|name| self.0.get(name)) {
            match grant {
                Grant::All => return Grant::All,
                Grant::Only(exports) => all.extend(exports.iter().cloned()),
            }
        }
        Grant::Only(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_client_has_what_its_names_have() {
        let mut list = AllowList::default();
        for (client, export) in [("a", "x"), ("a", "y"), ("b", "z"), ("c", "x"), ("c", "*"), ("c", "y")] {
            list.allow(client, export);
        }
        let both = list.grant(&names(&["a", "b", "unknown"]));
        assert!(both.covers("x") && both.covers("y") && both.covers("z") && !both.covers("w"));
        assert_eq!(list.grant(&names(&["b", "c"])), Grant::All);
        // Names are taken as they are: no case, no part, no pattern.
        for other in ["A", "a.example.org", "*", ""] {
            assert_eq!(list.grant(&names(&[other])), Grant::Only(BTreeSet::new()), "{other}");
        }
        assert!(!list.grant(&names(&["a"])).covers("*"));
    }
}
