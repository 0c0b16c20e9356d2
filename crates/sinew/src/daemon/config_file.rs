//! The file that says how a pool is served: its name, its sockets, its settings (`sinew serve --config FILE`).
//! docs/configuration.md describes it. A key that is not known is an error, as is a value that an option of `sinew serve`
//! would refuse.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use sinew_engine::pool::preset::Preset;
use sinew_format::model::policy::{Packing, Shares};
use sinew_members::latency::SpikeAvoidance;
use sinew_members::throttle::Limits;

use super::block_devices::BlockDevice;
use super::listen::{Listen, parse_address, parse_group, parse_mode};
use super::settings::Settings;
use super::tls_options::{AllowedClient, TlsOptions};
use super::vhost_sockets::VhostSocket;
use crate::pool::assembly::{Assembly, Source};
use crate::pool::cores::{self, CoreList};
use crate::pool::host::Kind;
use crate::pool::table_cache::TableCache;
use crate::pool::{members, preset};
use crate::protocol::{ElasticChange, IoTimeout, PolicyChange};
use crate::tls::TlsChoice;
use crate::units;
/// The time to wait for members that are missing if none is given: drives behind an expander can take this long.
const WAIT: Duration = Duration::from_secs(30);

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ConfigFile {
    /// By default the name of the file.
    pool: Option<String>,
    uuid: Option<String>,
    members: Option<Vec<PathBuf>>,
    #[serde(default, deserialize_with = "time")]
    wait: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    rebuild_after: Option<Duration>,
    #[serde(default)]
    read_only: bool,
    control: Option<PathBuf>,
    #[serde(default, deserialize_with = "core_list")]
    cores: Option<CoreList>,
    #[serde(default, deserialize_with = "table_cache")]
    table_cache: Option<TableCache>,
    #[serde(default, deserialize_with = "preset")]
    preset: Option<Preset>,
    #[serde(default)]
    nbd: Nbd,
    /// Sockets by the volume that is served there.
    #[serde(default)]
    vhost_user: BTreeMap<String, PathBuf>,
    /// Block devices by their volume.
    #[serde(default)]
    ublk: BTreeMap<String, Ublk>,
    #[serde(default)]
    metrics: HttpPlace,
    #[serde(default)]
    http: HttpPlace,
    #[serde(default)]
    events: Events,
    policy: Option<Policy>,
    throttle: Option<Throttle>,
    #[serde(default)]
    latency: Latency,
    elastic: Option<Elastic>,
}

/// The sockets for NBD.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Nbd {
    unix: Option<PathBuf>,
    #[serde(default, deserialize_with = "mode")]
    mode: Option<u32>,
    #[serde(default, deserialize_with = "group")]
    group: Option<u32>,
    #[serde(default, deserialize_with = "address")]
    tcp: Option<SocketAddr>,
    #[serde(default)]
    public: bool,
    #[serde(default)]
    tls: Tls,
}

/// TLS of the sockets for NBD.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Tls {
    mode: Option<TlsChoice>,
    certificates: Option<PathBuf>,
    verify_peer: Option<bool>,
    /// Names of clients, and the exports that each may use.
    #[serde(default)]
    clients: BTreeMap<String, Vec<String>>,
}

impl Tls {
    fn options(self) -> TlsOptions {
        let client = |(name, exports)| AllowedClient { name, exports };
        TlsOptions {
            tls: self.mode,
            tls_certificates: self.certificates,
            tls_verify_peer: self.verify_peer,
            tls_client: self.clients.into_iter().map(client).collect(),
        }
    }
}

/// The block device of a volume.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Ublk {
    number: Option<u32>,
}

/// A listener for HTTP: for metrics, or for the page.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct HttpPlace {
    #[serde(default, deserialize_with = "address")]
    tcp: Option<SocketAddr>,
    #[serde(default)]
    public: bool,
}

/// What is done with events.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Events {
    /// A program and its arguments.
    #[serde(default)]
    hook: Vec<String>,
}

/// As `sinew policy`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Policy {
    packing: Option<Packing>,
    defragment: Option<bool>,
    discard: Option<bool>,
    convert_below_free: Option<u8>,
    convert_above_mirrored: Option<u8>,
    #[serde(default, deserialize_with = "rate")]
    convert_pause_above: Option<u64>,
    shares: Option<Shares>,
}

/// As `sinew throttle`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Throttle {
    #[serde(default, deserialize_with = "rate")]
    rate: Option<u64>,
    #[serde(default)]
    pause_above: u64,
}

/// As `sinew latency`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Latency {
    spike_avoidance: Option<SpikeAvoidance>,
    #[serde(default, deserialize_with = "io_timeout")]
    io_timeout: Option<IoTimeout>,
}

/// As `sinew array share`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Elastic {
    mirrored_share: Option<u8>,
}

/// Reads a file: which pool is served, and how.
///
/// # Errors
/// When it cannot be read, or says something that is wrong; the error names the line.
pub(crate) fn read(path: &Path) -> Result<(Source, Kind, Listen)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let named = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    parse(&text, named).with_context(|| format!("{} is wrong", path.display()))
}

/// # Errors
/// When the text is not TOML, has a key that is not known, or a value that is wrong.
fn parse(text: &str, named: &str) -> Result<(Source, Kind, Listen)> {
    let file: ConfigFile =
        toml::from_str(text).map_err(|error| anyhow!("{}", error.to_string().trim_end()))?;
    let pool = file.pool.unwrap_or_else(|| named.to_owned());
    ensure!(!pool.is_empty(), "it does not name a pool; write pool = \"NAME\"");
    let places = match file.members {
        Some(places) => places,
        None => members::PLACES.iter().map(PathBuf::from).collect(),
    };
    let assembly = Assembly { pool, uuid: file.uuid, places, wait: file.wait.unwrap_or(WAIT) };
    let spike_avoidance = file.latency.spike_avoidance;
    ensure!(spike_avoidance != Some(SpikeAvoidance::Watch), "spike-avoidance: watch is for simulations only");
    let percent = |name: &str, value: Option<u8>| match value {
        Some(101..) => Err(anyhow!("{name} is a percentage, at most 100")),
        value => Ok(value),
    };
    let policy = file.policy.map(|policy| {
        anyhow::Ok(PolicyChange {
            packing: policy.packing,
            defragment: policy.defragment,
            discard: policy.discard,
            convert_below_free: percent("convert-below-free", policy.convert_below_free)?,
            convert_above_mirrored: percent("convert-above-mirrored", policy.convert_above_mirrored)?,
            convert_pause_above: policy.convert_pause_above,
            shares: policy.shares,
        })
    });
    let settings = Settings {
        policy: policy.transpose()?,
        throttle: file.throttle.map(|throttle| Limits {
            bytes_per_second: throttle.rate.unwrap_or(0),
            pause_above_iops: throttle.pause_above,
        }),
        spike_avoidance,
        io_timeout: file.latency.io_timeout,
        elastic: match file.elastic {
            Some(elastic) => {
                let share = percent("mirrored-share", elastic.mirrored_share)?;
                Some(ElasticChange { share: Some(share.into()), ..ElasticChange::default() })
            }
            None => None,
        },
    };
    let vhost_user = file.vhost_user.iter().map(|(volume, path)| VhostSocket::new(volume, path));
    let block_device = |(volume, device): (String, Ublk)| BlockDevice { volume, number: device.number };
    let listen = Listen {
        unix: file.nbd.unix,
        vhost_user: vhost_user.collect::<Result<_>>()?,
        ublk: file.ublk.into_iter().map(block_device).collect(),
        socket_mode: file.nbd.mode,
        socket_group: file.nbd.group,
        tcp: file.nbd.tcp,
        public: file.nbd.public,
        tls: file.nbd.tls.options(),
        metrics: file.metrics.tcp,
        metrics_public: file.metrics.public,
        http: file.http.tcp,
        http_public: file.http.public,
        control: file.control,
        cores: file.cores,
        table_cache: file.table_cache,
        preset: file.preset,
        rebuild_after: file.rebuild_after,
        hook: file.events.hook.into_iter().map(OsString::from).collect(),
        fault_member: Vec::new(),
        settings,
    };
    let kind = if file.read_only { Kind::ReadOnly } else { Kind::Pool };
    Ok((Source::Pool(assembly), kind, listen))
}

/// Reads a text as an option of the command does.
///
/// # Errors
/// When it is no text, or the option refuses it.
fn text<'de, D: Deserializer<'de>, T, E: Display>(
    from: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map(Some).map_err(|error| D::Error::custom(format!("{error:#}")))
}

/// # Errors
/// When the text is no time.
fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    text(from, units::parse_time)
}

/// # Errors
/// When the text is no rate.
fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    text(from, units::parse_rate)
}

/// # Errors
/// When the text is no list of cores.
fn core_list<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CoreList>, D::Error> {
    text(from, cores::parse)
}

/// # Errors
/// When there is no such preset.
fn preset<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Preset>, D::Error> {
    text(from, preset::parse)
}

/// # Errors
/// When the text is no mode.
fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    text(from, parse_mode)
}

/// # Errors
/// When there is no such group.
fn group<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    text(from, parse_group)
}

/// # Errors
/// When the text is no address.
fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    text(from, parse_address)
}

/// # Errors
/// When the text is no time, or one that a healthy member can need.
fn io_timeout<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IoTimeout>, D::Error> {
    text(from, IoTimeout::parse)
}

/// # Errors
/// When the text is neither a size nor `none`.
fn table_cache<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TableCache>, D::Error> {
    text(from, TableCache::parse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Share;

    const EXAMPLE: &str = include_str!("../../../../packaging/pool.toml");

    fn wrong(text: &str) -> String {
        let error = parse(text, "tank").err().unwrap_or_else(|| panic!("{text} is refused"));
        format!("{error:#}")
    }

    fn assembly(text: &str) -> Assembly {
        match parse(text, "tank").expect("a right file").0 {
            Source::Pool(assembly) => assembly,
            Source::Named(paths) => panic!("{paths:?}"),
        }
    }

    #[test]
    fn an_empty_file_serves_the_pool_of_its_name() {
        let assembly = assembly("");
        assert_eq!((assembly.pool.as_str(), assembly.wait), ("tank", WAIT));
        assert_eq!(assembly.places, members::PLACES.map(PathBuf::from));
    }

    #[test]
    fn everything_in_the_file_is_used() {
        let text = "
            pool = 'two words'
            members = ['/srv/m', '/dev/x']
            wait = '5s'
            rebuild-after = '10m'
            read-only = true
            cores = '0-1'
            table-cache = '1G'
            control = '/run/c'
            preset = 'sinew'
            [nbd]
            unix = '/run/n'
            mode = '0660'
            group = '7'
            tcp = '127.0.0.1:10809'
            [nbd.tls]
            mode = 'require'
            certificates = '/etc/sinew/tls'
            verify-peer = true
            [nbd.tls.clients]
            'a.example.org' = ['x', 'y']
            [vhost-user]
            vm = '/run/vm'
            [metrics]
            tcp = '127.0.0.1:9809'
            [http]
            tcp = '127.0.0.1:9810'
            [events]
            hook = ['/bin/hook', '-x']
            [policy]
            packing = 'whole-chunks'
            convert-pause-above = '40M'
            [throttle]
            rate = '100M'
            pause-above = 300
            [latency]
            spike-avoidance = 'consumer'
            io-timeout = 'never'
            [elastic]
            mirrored-share = 25
        ";
        let assembly = assembly(text);
        assert_eq!(assembly.pool, "two words");
        assert_eq!((assembly.places.len(), assembly.wait), (2, Duration::from_secs(5)));
        let (_, kind, listen) = parse(text, "tank").expect("a right file");
        assert!(matches!(kind, Kind::ReadOnly));
        assert_eq!(listen.unix, Some("/run/n".into()));
        assert_eq!((listen.socket_mode, listen.socket_group), (Some(0o660), Some(7)));
        assert_eq!(listen.vhost_user, [VhostSocket { volume: "vm".into(), path: "/run/vm".into() }]);
        assert_eq!(listen.tcp, parse_address("127.0.0.1:10809").ok());
        assert_eq!(listen.tls.tls, Some(TlsChoice::Require));
        assert_eq!(listen.tls.tls_certificates, Some("/etc/sinew/tls".into()));
        assert_eq!(listen.tls.tls_verify_peer, Some(true));
        let (name, exports) = ("a.example.org".to_owned(), vec!["x".to_owned(), "y".to_owned()]);
        assert_eq!(listen.tls.tls_client, [AllowedClient { name, exports }]);
        assert_eq!(listen.metrics, parse_address("127.0.0.1:9809").ok());
        assert_eq!(listen.http, parse_address("127.0.0.1:9810").ok());
        assert_eq!(listen.hook, ["/bin/hook", "-x"]);
        assert_eq!(listen.control, Some("/run/c".into()));
        assert_eq!(listen.rebuild_after, Some(Duration::from_secs(600)));
        assert_eq!(listen.cores.map(|cores| cores.0), Some(vec![0, 1]));
        assert_eq!(listen.table_cache, Some(TableCache::Bytes(1 << 30)));
        assert_eq!(listen.preset.map(|preset| preset.name), Some("sinew"));
        let Settings { policy, throttle, spike_avoidance, io_timeout, elastic } = listen.settings;
        let policy = policy.expect("a policy");
        assert_eq!(policy.packing.map(Packing::name), Some("whole-chunks"));
        assert_eq!(policy.convert_pause_above, Some(40 << 20));
        assert_eq!(throttle, Some(Limits { bytes_per_second: 100 << 20, pause_above_iops: 300 }));
        assert_eq!(spike_avoidance, Some(SpikeAvoidance::Consumer));
        assert_eq!(io_timeout, Some(IoTimeout::Never));
        assert_eq!(elastic.and_then(|elastic| elastic.share), Some(Share::Percent(25)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(wrong("pol = 'tank'").contains("unknown field `pol`"));
        assert!(wrong("\nwait = 'soon'").contains("line 2"));
        assert!(wrong("[nbd]\nmode = '999'").contains("three octal digits"));
        assert!(wrong("[nbd]\ntpc = 'x'").contains("unknown field `tpc`"));
        assert!(wrong("[nbd.tls]\nmode = 'on'").contains("off, allow, require"));
        assert!(wrong("[nbd.tls]\ncertificate = 'x'").contains("unknown field `certificate`"));
        assert!(wrong("[latency]\nio-timeout = '1s'").contains("not before"));
        assert!(wrong("[latency]\nspike-avoidance = 'watch'").contains("simulations"));
        assert!(wrong("[policy]\nconvert-below-free = 101").contains("convert-below-free is a percentage"));
        assert!(wrong("[elastic]\nmirrored-share = 101").contains("mirrored-share is a percentage"));
        assert!(wrong("pool = ''").contains("does not name a pool"));
    }

    #[test]
    fn the_example_of_the_package_is_right_with_and_without_its_comments() {
        assert_eq!(assembly(EXAMPLE).pool, "tank");
        let all: String =
            EXAMPLE.lines().map(|line| line.strip_prefix("#:").unwrap_or(line).to_owned() + "\n").collect();
        assert_ne!(all, EXAMPLE);
        let all = all.replace("group = \"kvm\"", "group = \"0\"");
        parse(&all, "tank").expect("the example with all keys");
    }
}
