//! This host, as the superblocks of a pool that it opens record it, and what is said of pools that another host has open.
//!
//! The identity of a host is the hash of its machine id (machine-id(5)), or of the text in the environment variable [`HOST_ID`].

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use ring::hmac;
use sinew_core::ids::Uuid;
use sinew_engine::pool::Opener;
use sinew_format::model::config::Config;
use sinew_format::model::host_record::HostRecord;

/// Text that identifies this host in place of its machine id.
const HOST_ID: &str = "SINEW_HOST_ID";

/// The application whose ids these are, for sd_id128_get_machine_app_specific(3).
const APPLICATION: [u8; 16] =
    [0x5e, 0x1d, 0x0c, 0x8a, 0x93, 0x6b, 0x4f, 0x27, 0xb4, 0x70, 0x2e, 0xc6, 0x11, 0xd9, 0x58, 0xaf];

/// Bytes of a name that are recorded: a host's name has no more.
const NAME_MAX: usize = 64;

/// This host as the opener of a pool, at this moment.
pub(crate) fn opener() -> Opener {
    Opener { host: record(), take_over: false }
}

fn record() -> Option<HostRecord> {
    let given = std::env::var(HOST_ID).ok();
    let machine = || fs::read_to_string("/etc/machine-id").ok();
    let id =
        given.and_then(|text| id_of_text(&text)).or_else(|| machine().and_then(|text| id_of_machine(&text)));
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let since_s = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    Some(HostRecord { id: id?, name: printable(&name), since_s })
}

/// The id of a host with this machine id; none if it has none, as in images of containers, or in the first boot.
fn id_of_machine(text: &str) -> Option<Uuid> {
    let text = text.trim();
    if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let machine = u128::from_str_radix(text, 16).ok().filter(|machine| *machine != 0)?;
    Some(application_id(&machine.to_be_bytes()))
}

/// The id of a host that is identified by a text. The machine id of another one is the same host as that one.
fn id_of_text(text: &str) -> Option<Uuid> {
    let text = text.trim();
    id_of_machine(text).or_else(|| (!text.is_empty()).then(|| application_id(text.as_bytes())))
}

/// As `systemd-id128 --app-specific` computes it.
fn application_id(machine: &[u8]) -> Uuid {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, machine), &APPLICATION);
    let mut id = [0; 16];
    id.copy_from_slice(&tag.as_ref()[..16]);
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

/// A name without bytes that a terminal would take for orders.
fn printable(name: &str) -> String {
    name.chars().filter(char::is_ascii_graphic).take(NAME_MAX).collect()
}

/// When a host opened a pool.
pub(crate) fn since(record: &HostRecord) -> Option<String> {
    let since = UNIX_EPOCH.checked_add(Duration::from_secs(record.since_s))?;
    (record.since_s > 0).then(|| humantime::format_rfc3339_seconds(since).to_string())
}

/// A host, and when it opened a pool, in words.
pub(crate) fn in_words(record: &HostRecord) -> String {
    match since(record) {
        Some(since) => format!("{record} since {since}"),
        None => record.to_string(),
    }
}

/// That a pool is open on another host.
pub(crate) fn is_open_on(pool: &str, other: &HostRecord) -> String {
    format!("pool {pool} is open on {}, or was not stopped there", in_words(other))
}

/// Why a pool is not opened that another host has open, and what to do.
pub(crate) fn refusal(pool: &str, other: &HostRecord) -> String {
    let this = record();
    let hint = match &this {
        None => format!(
            "\n  This host has no machine id (/etc/machine-id or {HOST_ID}), so it is not known whether it is the same one."
        ),
        Some(this) if this.name == other.name => {
            format!(
                "\n  This host has the same name. If it is the same one, its machine id has changed; {HOST_ID} can replace it."
            )
        }
        Some(_) => String::new(),
    };
    format!(
        "{}: two hosts that write to one pool destroy it\n  \
         Stop it there. If that host is dead: `sinew pool take-over MEMBER...`{hint}",
        is_open_on(pool, other)
    )
}

/// What is said when a pool is read that another host may be writing to.
pub(crate) fn warning_to_reader(config: &Config) -> Option<String> {
    let other = opener().other_host(config)?;
    Some(format!(
        "{}: if it is written to meanwhile, what is read is older, or a mix",
        is_open_on(&config.name, other)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_core::ids::uuid_text;

    /// Computed by `systemd-id128 machine-id --app-specific=5e1d0c8a936b4f27b4702ec611d958af`.
    #[test]
    fn ids_are_those_of_systemd() {
        let id = id_of_machine("3d1219c7c4c5404aaa1f6d2a48adfda4\n").map(|id| uuid_text(&id));
        assert_eq!(id.as_deref(), Some("cfd03912-a0ec-4de9-a3db-4cd64d8a2ca7"));
        assert_eq!(
            id_of_text("3d1219c7c4c5404aaa1f6d2a48adfda4"),
            id_of_machine("3d1219c7c4c5404aaa1f6d2a48adfda4")
        );
        assert_ne!(id_of_text("a"), id_of_text("b"));
    }

    #[test]
    fn what_is_no_machine_id_identifies_no_host() {
        for text in [
            "",
            "\n",
            "uninitialized\n",
            "00000000000000000000000000000000",
            "3d1219",
            "+d1219c7c4c5404aaa1f6d2a48adfda4",
        ] {
            assert_eq!(id_of_machine(text), None, "{text}");
        }
        assert_eq!(id_of_text(" "), None);
    }

    #[test]
    fn names_have_no_orders_for_terminals() {
        assert_eq!(printable("alpha\n"), "alpha");
        assert_eq!(printable("\u{1b}[31malpha"), "[31malpha");
    }
}
