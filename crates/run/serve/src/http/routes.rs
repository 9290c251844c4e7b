//! Resources of the HTTP server.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::sse::Sse;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use hostftl_volume::{Status, StatusHandle};
use tokio::task::spawn_blocking;

use crate::metrics;

use super::connections::{Connection, Connections};
use super::page::Page;
use super::updates::Updates;

/// Served volumes.
pub(super) type Volumes = Arc<[StatusHandle]>;

/// Returns the resources. Without the page there are only the metrics.
pub(super) fn router(
    volumes: Volumes,
    connections: Connections,
    (has_page, checks_host): (bool, bool),
) -> Router {
    let mut routes = Router::new().route("/metrics", get(metrics));
    if has_page {
        let page = Arc::new(Page::new());
        let stream = move |volumes, own| async move { stream(volumes, &connections, own) };
        routes = routes
            .route("/", get(move || async move { page.response() }))
            .route("/status.json", get(status))
            .route("/stream", get(stream));
    }
    let known = if has_page { "try / or /metrics\n" } else { "try /metrics\n" };
    let routes = routes.fallback(move || async move { (StatusCode::NOT_FOUND, known) });
    let routes = if checks_host { routes.layer(from_fn(check_host)) } else { routes };
    routes.layer(from_fn(harden)).with_state(volumes)
}

/// Runs `work` with the statuses, on a thread that may block.
async fn read<T: Send + 'static>(
    volumes: Volumes,
    work: impl FnOnce(&[Status]) -> T + Send + 'static,
) -> Result<T, StatusCode> {
    let read = move || work(&volumes.iter().map(StatusHandle::status).collect::<Vec<_>>());
    spawn_blocking(read).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn metrics(
    State(volumes): State<Volumes>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, StatusCode> {
    let accept = headers.get_all(ACCEPT).iter().map(|it| String::from_utf8_lossy(it.as_bytes()));
    let accept: String = accept.collect();
    let (kind, text) = read(volumes, move |all| metrics::answer(&accept, all)).await?;
    Ok(([(CONTENT_TYPE, kind)], text))
}

async fn status(State(volumes): State<Volumes>) -> Result<impl IntoResponse, StatusCode> {
    let text = read(volumes, serde_json::to_string_pretty::<[Status]>).await?;
    let text = text.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(CONTENT_TYPE, "application/json")], text))
}

/// Sends the status each second, with the events since the last message.
fn stream(
    State(volumes): State<Volumes>,
    connections: &Connections,
    Extension(own): Extension<Arc<Connection>>,
) -> impl IntoResponse + use<> {
    connections.begin_stream(&own);
    Sse::new(Updates::new(volumes, own).into_stream())
}

/// Refuses requests for host names other than `localhost`. Without that, a page of a stranger could
/// read the status in the user's browser: it would let its own name resolve to this address.
async fn check_host(request: Request, next: Next) -> Response {
    let is_own = |host: &HeaderValue| host.to_str().is_ok_and(is_own);
    if request.headers().get(HOST).is_none_or(is_own) {
        return next.run(request).await;
    }
    let text = "use the IP address of this server, or localhost\n";
    (StatusCode::MISDIRECTED_REQUEST, text).into_response()
}

/// Returns whether a `Host` header has an IP address or `localhost`.
fn is_own(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|it| it.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |it| it.0);
    let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok()
}

/// Adds headers that keep a response away from other pages and from caches.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    let headers = response.headers_mut();
    for (name, value) in [
        (policy, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let strict = "default-src 'none'; frame-ancestors 'none'";
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(strict));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_own_hosts() {
        for host in ["127.0.0.1", "127.0.0.1:80", "[::1]:8080", "[::1]", "LocalHost:1"] {
            assert!(is_own(host), "{host}");
        }
        for host in ["", "example.org", "example.org:80", "localhost.example.org", "127.0.0.1.x"] {
            assert!(!is_own(host), "{host}");
        }
    }
}
