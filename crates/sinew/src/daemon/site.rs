//! What the HTTP listeners of a daemon serve: the metrics of its pool, and its page.
//!
//! The page is static: a document, its style and its script, all from the program. The script asks for the state, the history
//! and the events as JSON. Nothing changes the pool, and nothing is loaded from elsewhere: the policy that is sent with each
//! part forbids it.

use std::rc::Rc;

use anyhow::Result;
use serde::Serialize;

use super::exposition::CONTENT_TYPE;
use super::http::{Page, Site};
use super::metrics;
use super::served::Served;

/// What a browser may do with the page: its own style, its own script, requests to its own server.
const POLICY: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
                      X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
                      Cross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-store\r\n";
/// Events that the page shows at most.
const EVENTS_MAX: u64 = 200;

/// The metrics of a pool.
pub(super) struct MetricsSite(pub(super) Rc<Served>);

impl Site for MetricsSite {
    async fn page(&self, path: &str) -> Page {
        if path != "/metrics" {
            return Page::Absent("there is only /metrics");
        }
        match metrics::text(&self.0.open, &self.0.stats).await {
            Ok(text) => Page::Found(CONTENT_TYPE, text),
            Err(error) => Page::Failed(format!("{error:#}")),
        }
    }
}

/// The page of a pool.
pub(super) struct PoolSite {
    pub(super) served: Rc<Served>,
    /// Requests may name any host, for example that of a proxy.
    pub(super) is_public: bool,
}

impl Site for PoolSite {
    const HEADERS: &str = POLICY;

    async fn page(&self, path: &str) -> Page {
        let text = |kind, text: &str| Page::Found(kind, text.to_owned());
        match path {
            "/" => text("text/html; charset=utf-8", include_str!("page/index.html")),
            "/page.css" => text("text/css; charset=utf-8", include_str!("page/page.css")),
            "/page.js" => text("text/javascript; charset=utf-8", include_str!("page/page.js")),
            "/icon.svg" => text("image/svg+xml", include_str!("page/icon.svg")),
            "/state" => json(self.served.state().await),
            "/history" => json(Ok(self.served.history())),
            "/events" => {
                let last = self.served.open.control.events().last();
                json(Ok(self.served.events(last.saturating_sub(EVENTS_MAX), false).await))
            }
            _ => Page::Absent("there are /, /state, /history and /events"),
        }
    }

    /// A page of another host could be led to this address by its name server, and read what is here. Its requests name its
    /// own host.
    fn accepts(&self, host: Option<&str>) -> bool {
        self.is_public || host.is_none_or(is_this_machine)
    }
}

/// Whether a host with its port is an address or the name of this machine for itself.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok()
}

fn json(value: Result<impl Serialize>) -> Page {
    let text = value.and_then(|value| Ok(serde_json::to_string(&value)?));
    match text {
        Ok(text) => Page::Found("application/json", text),
        Err(error) => Page::Failed(format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::is_this_machine;

    #[test]
    fn only_addresses_and_localhost_are_this_machine() {
        let own = ["localhost", "LOCALHOST:9810", "127.0.0.1:9810", "[::1]:9810", "[::1]", "10.0.0.3"];
        assert!(own.into_iter().all(is_this_machine));
        let others =
            ["example.org", "example.org:9810", "127.0.0.1.example.org", "localhost.example.org", ""];
        assert!(!others.into_iter().any(is_this_machine));
    }
}
