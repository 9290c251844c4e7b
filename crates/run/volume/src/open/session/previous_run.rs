//! Leftovers of the previous run of a volume, which a start handles before clients are served.

use std::sync::Arc;

use hostftl_core::DeviceSet;
use hostftl_io::{Arena, Device, Driver};
use hostftl_layers::{AnyLayer, LayerConfig};

use crate::metadata::config::Config;
use crate::metadata::roster::Roster;
use crate::open::event_host::{EventHost, explain_full};
use crate::open::machine::settle;
use crate::open::options::{Acks, StartOptions};
use crate::open::session::ack_log::{self, AckLog};
use crate::open::session::{Last, Session, find_log};
use crate::util::counted::counted;
use crate::util::error::Error;
use crate::util::events::{Events, Level};

/// Updates the superblocks of `roster` to the member states, and applies the acknowledgement log of
/// the last run. Returns the session and the set of lost members.
pub(crate) fn take_up(
    options: &StartOptions,
    (config, layer, roster): (&Config, &LayerConfig, Option<&mut Roster>),
    driver: &mut Driver<AnyLayer>,
    (arena, event_host): (&Arc<Arena>, &mut EventHost),
) -> Result<(Option<Session>, DeviceSet), Error> {
    let mut roster = roster;
    let lost = settle(layer, roster.as_deref_mut(), driver)?;
    if options.service.is_none() || config.is_memory() {
        return Ok((None, lost));
    }
    let last = Last::read(config, driver.devices(), lost);
    // Before anything is applied: a log of a later run proves that the devices are older copies.
    ack_log::refuse_newer(config.uuid, last.run())?;
    let left = find_log(config, &last)?;
    let session = Session::next(options, config, last, left.is_some());
    let Some(left) = left.filter(|left| left.count() > 0) else { return Ok((session, lost)) };
    // On an error the log is kept for the next start: `begin` removes it once this run is marked.
    ack_log::put_through(&left, driver, arena, event_host)?;
    let count = counted(left.count(), "acknowledged write");
    let text = format!("{count} without a flush applied again");
    event_host.events.report(Level::Info, "note", text);
    // A device may have been lost meanwhile.
    settle(layer, roster, driver).map(|lost| (session, lost))
}

/// Marks the volume as serving in `session`, and removes the leftovers of earlier runs.
pub(crate) fn begin(
    session: &Session,
    (options, config): (&StartOptions, &Config),
    devices: &[Device],
    lost: DeviceSet,
    events: &Events,
) -> Result<(), Error> {
    // Before the mark: from then on only an orderly stop is a clean end.
    options.before_serving.iter().for_each(|hook| hook());
    session.serving(devices, lost).map_err(explain_full)?;
    ack_log::tidy(config.uuid, session.run(), session.last(), events);
    Ok(())
}

/// Creates an empty acknowledgement log for the new run, if requested. A log with the same run
/// number, of a start that was interrupted before its mark, is always removed. Otherwise this run
/// would seem to have preserved its acknowledged writes.
pub(crate) fn make_ack_log(
    options: &StartOptions,
    config: &Config,
    session: Option<&Session>,
) -> Result<Option<AckLog>, Error> {
    session.iter().for_each(|session| ack_log::forget_run(config.uuid, session.run()));
    if options.acks != Acks::Memfd {
        return Ok(None);
    }
    let Some(session) = session else {
        let why = "--ack memfd: the volume itself is in memory of this process";
        return Err(Error::Asked(why.into()));
    };
    ack_log::make(config.uuid, session.run(), session.boot()).map(Some)
}
