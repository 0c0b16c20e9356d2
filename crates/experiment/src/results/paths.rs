//! Figures of a run by their path in its JSON: `requests.write.latency.p99_ns`, `volumes.*.latency.p50_ns`.

use serde_json::Value;

/// The names of the kinds of requests in the JSON.
const KINDS: [&str; 4] = ["read", "write", "discard", "flush"];

/// The figure at a path; nothing where it is null or below null, which the figure of an idle drive is, or where a run has no
/// request of the kind. A path that does not exist is an error.
pub(crate) fn at(figures: &Value, path: &str) -> Result<Option<f64>, String> {
    let mut here = figures;
    for part in path.split('.') {
        if here.is_null() || is_absent_kind(path, part, here) {
            return Ok(None);
        }
        let next = match part.parse::<usize>() {
            Ok(index) => here.get(index),
            Err(_) => here.get(part),
        };
        here = next.ok_or_else(|| missing(path, part))?;
    }
    match here {
        Value::Null => Ok(None),
        here => here.as_f64().map(Some).ok_or_else(|| format!("{path} is not a number")),
    }
}

/// The names that the first `*` of a path stands for; none if it has no `*`.
pub(crate) fn names_at(figures: &Value, path: &str) -> Result<Vec<String>, String> {
    let mut here = figures;
    for part in path.split('.') {
        if part == "*" {
            let names = here.as_object().map(|table| table.keys().cloned().collect());
            return names.ok_or_else(|| format!("{path}: the * is not at a table of names"));
        }
        here = here.get(part).ok_or_else(|| missing(path, part))?;
    }
    Ok(Vec::new())
}

/// Whether a path asks for requests of a kind of which a run has none: it has no entry for it, which is no error of the path.
fn is_absent_kind(path: &str, part: &str, here: &Value) -> bool {
    let asked = path.strip_prefix("requests.").and_then(|rest| rest.split('.').next());
    asked == Some(part) && KINDS.contains(&part) && here.get(part).is_none()
}

fn missing(path: &str, part: &str) -> String {
    format!("a run has no figure {path}: there is no {part}")
}

/// The fraction of requests at or below a quantile that a path names; nothing if it names another figure.
pub(crate) fn quantile(path: &str) -> Option<f64> {
    Some(match path.rsplit('.').next()? {
        "p50_ns" => 0.5,
        "p90_ns" => 0.9,
        "p95_ns" => 0.95,
        "p99_ns" => 0.99,
        "p99_9_ns" => 0.999,
        "p99_99_ns" => 0.9999,
        _ => return None,
    })
}

/// The path of the number of requests that a quantile at `path` is of.
pub(crate) fn count_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('.').collect();
    match parts[..] {
        ["requests", kind, "latency" | "service", _] => Some(format!("requests.{kind}.requests")),
        ["volumes", volume, "latency", _] => Some(format!("volumes.{volume}.requests")),
        ["volumes", volume, kind @ ("read" | "write"), _] => Some(format!("volumes.{volume}.{kind}s")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_kinds_are_no_figure_and_wrong_paths_are_errors() {
        let figures = json!({
            "requests": { "write": { "requests": 3, "latency": { "p99_ns": 5 } } },
            "volumes": { "a": { "read": null, "write": { "p99_ns": 7 } } },
        });
        assert_eq!(at(&figures, "requests.write.latency.p99_ns"), Ok(Some(5.0)));
        assert_eq!(at(&figures, "requests.read.latency.p99_ns"), Ok(None));
        assert_eq!(at(&figures, "volumes.a.read.p99_ns"), Ok(None));
        assert!(at(&figures, "requests.reads.latency.p99_ns").unwrap_err().contains("there is no reads"));
        assert!(at(&figures, "requests.write.latency.p98_ns").is_err());
        assert_eq!(names_at(&figures, "volumes.*.write.p99_ns"), Ok(vec!["a".to_owned()]));
        assert_eq!(count_path("volumes.a.read.p99_ns"), Some("volumes.a.reads".to_owned()));
        assert_eq!(quantile("volumes.a.read.p99_9_ns"), Some(0.999));
    }
}
