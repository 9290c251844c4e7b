//! The page: static, and without data. Its script inserts the data as text.

use axum::body::Bytes;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64;
use ring::digest::{SHA256, digest};

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The page with its policy.
#[derive(Debug)]
pub(super) struct Page {
    text: Bytes,
    /// Permits the page's own script and style, updates from this server, and nothing else.
    policy: String,
}

impl Page {
    /// Assembles the page.
    pub(super) fn new() -> Self {
        let text = HTML.replace("/* style */", STYLE).replace("/* script */", SCRIPT);
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash(SCRIPT),
            hash(STYLE)
        );
        Page { text: text.into(), policy }
    }

    /// Returns the response that delivers the page.
    pub(super) fn response(&self) -> Response {
        let kind = (CONTENT_TYPE, "text/html; charset=utf-8".to_owned());
        ([kind, (CONTENT_SECURITY_POLICY, self.policy.clone())], self.text.clone()).into_response()
    }
}

/// Returns the source expression that permits one inline script or style.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", BASE64.encode(digest(&SHA256, text.as_bytes()).as_ref()))
}
