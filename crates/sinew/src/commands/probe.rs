//! `sinew pool probe`: the pool that one device is a member of, as variables for udev rules.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use sinew_core::ids::uuid_text;

use crate::out::say;
use crate::pool::members;

/// Says which pool a device is a member of, as variables for udev rules. Fails if it is not a member.
///
/// The names of the variables are those of blkid, so that other programs do not take the device for an empty one.
#[derive(Args)]
pub(crate) struct ProbeArgs {
    /// A block device or a file.
    device: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When the device cannot be read or has no superblock.
pub(crate) fn run(args: &ProbeArgs) -> Result<()> {
    let superblock = members::peek(&args.device)
        .with_context(|| format!("{} is not a member of a Sinew pool", args.device.display()))?;
    let config = &superblock.config;
    say!("ID_FS_TYPE=sinew_member");
    say!("ID_FS_USAGE=raid");
    say!("ID_FS_UUID={}", uuid_text(&config.pool));
    say!("ID_FS_UUID_SUB={}", uuid_text(&config.members[usize::from(superblock.member)].uuid));
    if is_plain(&config.name) {
        say!("ID_FS_LABEL={}", config.name);
        say!("SINEW_POOL={}", config.name);
    }
    Ok(())
}

/// Whether a name stays itself in a variable of udev, the name of a unit, and a path.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.starts_with(['.', '-']) && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn names_with_a_meaning_for_others_are_not_plain() {
        assert!(["tank", "a-b_c.0"].into_iter().all(is_plain));
        assert!(!["a b", "a/b", "../x", "-a", "a%i", "a\nB=c", "ü", "a$b"].into_iter().any(is_plain));
    }
}
