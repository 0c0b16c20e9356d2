//! Names of pools and volumes, which become part of paths, URIs and labels of metrics.

/// Bytes of a volume's name at most.
pub const VOLUME_NAME_MAX: usize = 128;

/// Bytes of a pool's name at most.
pub const POOL_NAME_MAX: usize = 64;

/// What a name consists of, for messages.
pub const RULE: &str = "letters of ASCII, digits, and . _ - : + behind the first one";

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-:+".contains(c)
}

/// Whether something new may have this name. What has another one, from an earlier version, keeps it.
pub fn is_valid(name: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_allowed)
}

/// A pool's name that is like this text, with `-` for what a name cannot have; `otherwise` if nothing is left.
pub fn fitting(text: &str, otherwise: &str) -> String {
    let name: String = text.chars().map(|c| if is_allowed(c) { c } else { '-' }).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let name = &name[..name.len().min(POOL_NAME_MAX)];
    if name.is_empty() { otherwise.to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fit_for_paths_and_uris() {
        for name in ["v", "vm-101_disk.0", "a:b+c", "0", &"n".repeat(64)] {
            assert!(is_valid(name, POOL_NAME_MAX), "{name}");
        }
        for name in ["", ".", "..", ".a", "-a", "a b", "a/b", "ü", "a\n", &"n".repeat(65)] {
            assert!(!is_valid(name, POOL_NAME_MAX), "{name:?}");
        }
    }

    #[test]
    fn a_fitting_name_is_valid() {
        for text in ["tank", ".hidden", "my data", "räum", "///", "", &"ä".repeat(100)] {
            let name = fitting(text, "sinew");
            assert!(is_valid(&name, POOL_NAME_MAX), "{text:?} became {name:?}");
        }
        assert_eq!(fitting("my data", "sinew"), "my-data");
        assert_eq!(fitting("..", "sinew"), "sinew");
    }
}
