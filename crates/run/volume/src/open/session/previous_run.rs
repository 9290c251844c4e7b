//! What the last run of a volume left, which a start takes up before anybody is served.

use std::sync::Arc;

use hostftl_io::{Arena, Device, Driver};
use hostftl_layers::{AnyLayer, LayerConfig};

use crate::metadata::config::Config;
use crate::metadata::roster::Roster;
use crate::open::event_host::{Quiet, explain_full};
use crate::open::machine::settle;
use crate::open::options::{Acks, StartOptions};
use crate::open::session::ack_log::{self, Stash};
use crate::open::session::{Last, Session, left_by};
use crate::util::counted::counted;
use crate::util::error::Error;
use crate::util::events::{Events, Level};

/// Makes the superblocks of `roster` say how the members stand, and puts through the layer what the
/// last run answered and left in memory; how the volume is served now, and who is lost.
///
/// # Errors
/// When that can't be read or written, or is of a later run than the devices know.
pub(crate) fn take_up(
    options: &StartOptions,
    (config, layer, roster): (&Config, &LayerConfig, Option<&mut Roster>),
    driver: &mut Driver<AnyLayer>,
    (arena, quiet): (&Arc<Arena>, &mut Quiet),
) -> Result<(Option<Session>, u16), Error> {
    let mut roster = roster;
    let lost = settle(layer, roster.as_deref_mut(), driver)?;
    if options.service.is_none() || config.is_memory() {
        return Ok((None, lost));
    }
    let last = Last::of(config, driver.devices(), lost);
    ack_log::refuse_newer(config.uuid, last.run())?;
    let left = left_by(config, &last)?;
    let session = Session::of(options, config, last, left.is_some());
    let Some(left) = left.filter(|left| left.count() > 0) else { return Ok((session, lost)) };
    ack_log::put_through(&left, driver, arena, quiet)?;
    let count = counted(left.count(), "answered write");
    let text = format!("{count} that no flush had covered went through the layer again");
    quiet.events.tell(Level::Info, "note", text);
    // A device may have been lost over that.
    settle(layer, roster, driver).map(|lost| (session, lost))
}

/// The volume is served from now on, as `session` says, and what runs before it left is done with.
///
/// # Errors
/// When no device takes the mark.
pub(crate) fn begin(
    session: &Session,
    (options, config): (&StartOptions, &Config),
    devices: &[Device],
    lost: u16,
    events: &Events,
) -> Result<(), Error> {
    options.before_serving.iter().for_each(|tell| tell());
    session.serving(devices, lost).map_err(explain_full)?;
    ack_log::tidy(config.uuid, session.run(), session.last(), events);
    Ok(())
}

/// An empty stash for the run that begins, if one is wanted. One that a start of this number left
/// which was cut off before its mark goes away in any case: the run would be taken for one that
/// kept what it answered.
///
/// # Errors
/// When the volume is in memory itself, or the stash can't be made.
pub(crate) fn stash_for(
    options: &StartOptions,
    config: &Config,
    session: Option<&Session>,
) -> Result<Option<Stash>, Error> {
    session.iter().for_each(|session| ack_log::forget_run(config.uuid, session.run()));
    if options.acks != Acks::Memfd {
        return Ok(None);
    }
    let Some(session) = session else {
        let why = "--ack memfd: the volume is in memory itself, which ends with this process";
        return Err(Error::Asked(why.into()));
    };
    ack_log::make(config.uuid, session.run(), session.boot()).map(Some)
}
