//! Metrics of volumes for Prometheus.

mod text;

use hostftl_volume::Status;

/// Media type of the response for scrapers that accept it.
const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type for all others, such as `promtool check metrics` behind `curl`.
const CLASSIC_CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the content type and the text for a scraper that accepts the media types `accept`.
pub(crate) fn answer(accept: &str, all: &[Status]) -> (&'static str, String) {
    let text = text::emit(all);
    if accept.contains(OPEN_METRICS) {
        (OPEN_METRICS_CONTENT, text)
    } else {
        (CLASSIC_CONTENT, text::classic(&text))
    }
}
