//! Changing a description by path: `members.0.size`, `workload.speed`.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// Values by path.
pub(crate) type Settings = BTreeMap<String, Value>;

/// Sets what the paths say. A table on the way that is not there is made; a list must be there.
pub(crate) fn apply(document: &mut Table, settings: &Settings) -> Result<(), String> {
    settings.iter().try_for_each(|(path, value)| set(document, path, value.clone()))
}

fn set(document: &mut Table, path: &str, value: Value) -> Result<(), String> {
    let (way, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut at: Vec<&str> = way.split('.').filter(|part| !part.is_empty()).collect();
    at.reverse();
    put(document, &mut at, last, value).map_err(|why| format!("{path}: {why}"))
}

fn put(table: &mut Table, way: &mut Vec<&str>, last: &str, value: Value) -> Result<(), String> {
    let Some(next) = way.pop() else {
        table.insert(last.to_owned(), value);
        return Ok(());
    };
    match table.entry(next).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => put(inner, way, last, value),
        Value::Array(list) => put_in_list(list, next, way, last, value),
        _ => Err(format!("{next} holds nothing")),
    }
}

fn put_in_list(
    list: &mut [Value],
    name: &str,
    way: &mut Vec<&str>,
    last: &str,
    value: Value,
) -> Result<(), String> {
    let (number, is_last) = way.pop().map_or((last, true), |number| (number, false));
    let count = list.len();
    let entry = number.parse::<usize>().ok().and_then(|index| list.get_mut(index));
    let Some(entry) = entry else {
        return Err(format!("{name} has entries 0 to {}, not {number}", count - 1));
    };
    match entry {
        entry if is_last => {
            *entry = value;
            Ok(())
        }
        Value::Table(inner) => put(inner, way, last, value),
        _ => Err(format!("{name}.{number} holds nothing")),
    }
}

/// All combinations of the values, the last path changing fastest.
pub(crate) fn combinations(sweep: &BTreeMap<String, Vec<Value>>) -> Vec<Settings> {
    let mut all = vec![Settings::new()];
    for (path, values) in sweep {
        let with = |settings: &Settings, value: &Value| {
            let mut settings = settings.clone();
            settings.insert(path.clone(), value.clone());
            settings
        };
        all = all.iter().flat_map(|s| values.iter().map(move |value| with(s, value))).collect();
    }
    all
}

/// In full, as the file says it: `pool.width = 4, workload.speed = 2.0`.
pub(crate) fn describe(settings: &Settings) -> String {
    let parts: Vec<_> = settings.iter().map(|(path, value)| format!("{path} = {value}")).collect();
    parts.join(", ")
}

/// For people: `width = 4, speed = 2`.
pub(crate) fn brief(settings: &Settings) -> String {
    let parts: Vec<_> =
        settings.iter().map(|(path, value)| format!("{} = {}", name(settings, path), plain(value))).collect();
    parts.join(", ")
}

/// The last word of a path where that tells it from the other paths, otherwise all of it.
pub(crate) fn name<'a>(settings: &Settings, path: &'a str) -> &'a str {
    let last = |path: &'a str| path.rsplit('.').find(|part| part.parse::<usize>().is_err()).unwrap_or(path);
    let alike = settings.keys().filter(|other| other.split('.').any(|part| part == last(path))).count();
    if alike > 1 { path } else { last(path) }
}

/// A value without what only TOML needs.
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
    fn paths_lead_into_tables_and_lists() {
        assert_eq!(set_one("a").unwrap()["a"].as_integer(), Some(9));
        assert_eq!(set_one("b.c").unwrap()["b"]["c"].as_integer(), Some(9));
        assert_eq!(set_one("d.1.e").unwrap()["d"][1]["e"].as_integer(), Some(9));
        assert_eq!(set_one("d.0").unwrap()["d"][0].as_integer(), Some(9));
        assert_eq!(set_one("new.x").unwrap()["new"]["x"].as_integer(), Some(9));
        assert_eq!(set_one("a.b").unwrap_err(), "a.b: a holds nothing");
        assert_eq!(set_one("d.2.e").unwrap_err(), "d.2.e: d has entries 0 to 1, not 2");
    }

    #[test]
    fn brief_names_are_clear() {
        let settings = |pairs: &[(&str, f64)]| -> Settings {
            pairs.iter().map(|&(path, value)| (path.to_owned(), Value::Float(value))).collect()
        };
        assert_eq!(
            brief(&settings(&[("a.iops", 5000.0), ("members.0.spare", 0.07)])),
            "iops = 5000, spare = 0.07"
        );
        assert_eq!(brief(&settings(&[("a.iops", 1.0), ("b.iops", 2.0)])), "a.iops = 1, b.iops = 2");
    }

    #[test]
    fn combinations_are_all_of_them() {
        let list = |values: &[i64]| values.iter().map(|&v| Value::Integer(v)).collect::<Vec<_>>();
        let sweep = BTreeMap::from([("x".to_owned(), list(&[1, 2])), ("y".to_owned(), list(&[3, 4, 5]))]);
        let all: Vec<_> = combinations(&sweep).iter().map(describe).collect();
        assert_eq!(all.len(), 6);
        assert_eq!((all[0].as_str(), all[5].as_str()), ("x = 1, y = 3", "x = 2, y = 5"));
        assert_eq!(combinations(&BTreeMap::new()), [Settings::new()]);
    }
}
