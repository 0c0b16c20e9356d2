//! The daemon of `sinew serve` and `sinew up`: a pool of this process, its volumes over NBD, and its control socket.

mod addresses;
mod control_socket;
mod event_log;
mod listen;
mod member_watch;
mod metrics;
mod nbd_sockets;
mod rates;
mod server;

pub(crate) use addresses::Addresses;
pub(crate) use listen::{Listen, parse_address};
pub(crate) use server::serve;
