//! Overriding values of a file by path: `members.0.size`, `workload.speed`. Cases, sweeps and quick runs do so.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// Values by path.
pub(crate) type Overrides = BTreeMap<String, Value>;

/// Sets each value at its path. A missing table on the path is created; a missing list is an error.
pub(crate) fn apply(document: &mut Table, overrides: &Overrides) -> Result<(), String> {
    overrides.iter().try_for_each(|(path, value)| set(document, path, value.clone()))
}

fn set(document: &mut Table, path: &str, value: Value) -> Result<(), String> {
    let (tables, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut steps: Vec<&str> = tables.split('.').filter(|part| !part.is_empty()).collect();
    steps.reverse();
    put(document, &mut steps, last, value).map_err(|why| format!("{path}: {why}"))
}

/// `steps` are the tables still to enter, the next one last.
fn put(table: &mut Table, steps: &mut Vec<&str>, last: &str, value: Value) -> Result<(), String> {
    let Some(next) = steps.pop() else {
        table.insert(last.to_owned(), value);
        return Ok(());
    };
    match table.entry(next).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => put(inner, steps, last, value),
        Value::Array(list) => put_in_list(list, next, steps, last, value),
        _ => Err(format!("{next} is neither a table nor a list")),
    }
}

fn put_in_list(
    list: &mut [Value],
    name: &str,
    steps: &mut Vec<&str>,
    last: &str,
    value: Value,
) -> Result<(), String> {
    let (number, is_last) = steps.pop().map_or((last, true), |number| (number, false));
    let count = list.len();
    let entry = number.parse::<usize>().ok().and_then(|index| list.get_mut(index));
    let Some(entry) = entry else {
        return Err(format!("{name} has no entry {number}; it has {count}"));
    };
    match entry {
        entry if is_last => {
            *entry = value;
            Ok(())
        }
        Value::Table(inner) => put(inner, steps, last, value),
        _ => Err(format!("{name}.{number} is not a table")),
    }
}

/// All combinations of the swept values; those of the last path vary fastest.
pub(crate) fn combinations(sweep: &BTreeMap<String, Vec<Value>>) -> Vec<Overrides> {
    let mut all = vec![Overrides::new()];
    for (path, values) in sweep {
        let with = |overrides: &Overrides, value: &Value| {
            let mut overrides = overrides.clone();
            overrides.insert(path.clone(), value.clone());
            overrides
        };
        all = all.iter().flat_map(|s| values.iter().map(move |value| with(s, value))).collect();
    }
    all
}

/// All paths and values as they stand in the file: `pool.width = 4, workload.speed = 2.0`.
pub(crate) fn describe(overrides: &Overrides) -> String {
    let parts: Vec<_> = overrides.iter().map(|(path, value)| format!("{path} = {value}")).collect();
    parts.join(", ")
}

/// Short names and values, for people: `width = 4, speed = 2`.
pub(crate) fn brief(overrides: &Overrides) -> String {
    let parts: Vec<_> = overrides
        .iter()
        .map(|(path, value)| format!("{} = {}", name(overrides, path), plain(value)))
        .collect();
    parts.join(", ")
}

/// The last word of a path if no other path contains it, otherwise the whole path.
pub(crate) fn name<'a>(overrides: &Overrides, path: &'a str) -> &'a str {
    let last = |path: &'a str| path.rsplit('.').find(|part| part.parse::<usize>().is_err()).unwrap_or(path);
    let alike = overrides.keys().filter(|other| other.split('.').any(|part| part == last(path))).count();
    if alike > 1 { path } else { last(path) }
}

/// A value without the quotes and decimal points that only TOML needs.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Table {
        "a = 1\n[b]\nc = 2\n[[d]]\ne = 3\n[[d]]\ne = 4\n".parse().unwrap()
    }

    fn set_one(path: &str) -> Result<Table, String> {
        let mut document = document();
        set(&mut document, path, Value::Integer(9)).map(|()| document)
    }

    #[test]
    fn paths_enter_tables_and_lists() {
        assert_eq!(set_one("a").unwrap()["a"].as_integer(), Some(9));
        assert_eq!(set_one("b.c").unwrap()["b"]["c"].as_integer(), Some(9));
        assert_eq!(set_one("d.1.e").unwrap()["d"][1]["e"].as_integer(), Some(9));
        assert_eq!(set_one("d.0").unwrap()["d"][0].as_integer(), Some(9));
        assert_eq!(set_one("new.x").unwrap()["new"]["x"].as_integer(), Some(9));
        assert_eq!(set_one("a.b").unwrap_err(), "a.b: a is neither a table nor a list");
        assert_eq!(set_one("d.2.e").unwrap_err(), "d.2.e: d has no entry 2; it has 2");
    }

    #[test]
    fn brief_names_are_unambiguous() {
        let overrides = |pairs: &[(&str, f64)]| -> Overrides {
            pairs.iter().map(|&(path, value)| (path.to_owned(), Value::Float(value))).collect()
        };
        assert_eq!(
            brief(&overrides(&[("a.iops", 5000.0), ("members.0.spare", 0.07)])),
            "iops = 5000, spare = 0.07"
        );
        assert_eq!(brief(&overrides(&[("a.iops", 1.0), ("b.iops", 2.0)])), "a.iops = 1, b.iops = 2");
    }

    #[test]
    fn all_combinations_are_made() {
        let list = |values: &[i64]| values.iter().map(|&v| Value::Integer(v)).collect::<Vec<_>>();
        let sweep = BTreeMap::from([("x".to_owned(), list(&[1, 2])), ("y".to_owned(), list(&[3, 4, 5]))]);
        let all: Vec<_> = combinations(&sweep).iter().map(describe).collect();
        assert_eq!(all.len(), 6);
        assert_eq!((all[0].as_str(), all[5].as_str()), ("x = 1, y = 3", "x = 2, y = 5"));
        assert_eq!(combinations(&BTreeMap::new()), [Overrides::new()]);
    }
}
