//! The daemon of `sinew serve` and `sinew up`: a pool of this process, its volumes over NBD, over vhost-user and as block devices, its
//! control socket, and its metrics and its page over HTTP.

mod addresses;
mod block_devices;
pub(crate) mod config_file;
mod control_socket;
mod event_log;
mod exposition;
mod history;
mod hook;
mod http;
mod latecomers;
mod listen;
mod member_watch;
mod metrics;
mod nbd_sockets;
mod pool_thread;
mod rates;
mod readiness;
mod refusals;
mod served;
mod server;
mod settings;
mod site;
mod tls_options;
mod vhost_sockets;
mod volume_stats;

pub(crate) use addresses::Addresses;
pub(crate) use exposition::prometheus;
pub(crate) use listen::{Listen, parse_address};
pub(crate) use server::serve;
