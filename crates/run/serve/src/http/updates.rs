//! Updates of the page: the status of all volumes each second, and their new events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event as Message;
use futures_util::Stream;
use futures_util::stream::unfold;
use hostftl_volume::{Event, Status};
use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::connections::Connection;
use super::routes::Volumes;

/// Time between two updates, and after which a browser reconnects.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of events in the first update.
const FIRST_EVENTS: usize = 100;

/// Updates for one client.
pub(super) struct Updates {
    volumes: Volumes,
    connection: Arc<Connection>,
    clock: Interval,
    /// Number of the last event of each volume that was sent; `None` before the first update.
    seen: Vec<Option<u64>>,
}

/// Update of one volume.
#[derive(Serialize)]
struct Update {
    status: Status,
    /// Events since the last update, oldest first.
    events: Vec<Event>,
}

impl Updates {
    /// Creates the updates for the client of a connection.
    pub(super) fn new(volumes: Volumes, connection: Arc<Connection>) -> Self {
        let mut clock = interval(EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let seen = vec![None; volumes.len()];
        Updates { volumes, connection, clock, seen }
    }

    /// Returns the messages. The stream ends when a status cannot be read.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Message, Infallible>> {
        unfold(self, |mut updates| async move {
            let text = updates.next().await?;
            updates.connection.progress();
            Some((Ok(Message::default().retry(EVERY).data(text)), updates))
        })
    }

    async fn next(&mut self) -> Option<String> {
        self.clock.tick().await;
        let (volumes, mut seen) = (self.volumes.clone(), std::mem::take(&mut self.seen));
        let read = move || {
            let each = volumes.iter().zip(&mut seen);
            let update = each.map(|(volume, seen)| {
                let mut events = match *seen {
                    Some(number) => volume.events().since(number),
                    None => volume.events().all(),
                };
                events.drain(..events.len().saturating_sub(FIRST_EVENTS));
                *seen = events.last().map_or(seen.or(Some(0)), |last| Some(last.number));
                Update { status: volume.status(), events }
            });
            let text = serde_json::to_string(&update.collect::<Vec<_>>());
            (text, seen)
        };
        let (text, seen) = spawn_blocking(read).await.ok()?;
        self.seen = seen;
        text.ok()
    }
}
