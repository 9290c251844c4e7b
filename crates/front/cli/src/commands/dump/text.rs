//! Text form of a dump.

use hostftl_volume::{ClaimText, DeviceDump, Dump, Found, MarkText, RootText, SuperblockText};

use crate::units::{bytes, counted};

/// Returns the lines of a dump.
pub(super) fn lines(dump: &Dump) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(file) = &dump.file {
        out.push(format!("{}: volume {}{}", file.path, file.volume, label(&file.label)));
        out.push(field("layer", &file.layer));
    }
    if let Some(made) = &dump.backup_of {
        out.push(format!("backup of {made}"));
    }
    for process in &dump.served_by {
        out.push(field(
            "served",
            &format!(
                "by process {process}: the metadata changes during the dump, so a copy may appear \
                damaged although it is valid"
            ),
        ));
    }
    dump.devices.iter().for_each(|one| device(one, &mut out));
    out
}

fn field(name: &str, text: &str) -> String {
    format!("  {name:<10} {text}")
}

fn label(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!(" ({label})") }
}

fn device(one: &DeviceDump, out: &mut Vec<String>) {
    let size = one.bytes.map_or(String::new(), |size| format!(", {}", bytes(size)));
    out.push(format!("{}{size}", one.name));
    out.extend(one.trouble.iter().map(|why| field("problem", why)));
    for copy in &one.superblocks {
        let generation = copy.says.as_ref();
        let generation =
            generation.map_or(String::new(), |it| format!(", generation {}", it.generation));
        out.push(field("superblock", &format!("{}{generation}", place(copy))));
    }
    one.superblock().iter().for_each(|it| superblock(it, out));
    out.extend(one.sessions.iter().map(|copy| field("session", &session(copy))));
    out.extend(one.claims.iter().map(|copy| field("claim", &claim(copy))));
    let newest = one.roots.iter().filter_map(|copy| Some(copy.says.as_ref()?.number)).max();
    out.extend(one.roots.iter().map(|copy| field("root", &root(copy, newest))));
    let it = one.roots.iter().filter_map(|copy| copy.says.as_ref());
    it.max_by_key(|it| it.number).iter().for_each(|it| covers(it, out));
    out.extend(one.no_roots.iter().map(|why| field("roots", why)));
}

/// Formats the offset of a copy and its state.
fn place<T>(copy: &Found<T>) -> String {
    let why = copy.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    format!("at {}: {}{why}", copy.offset_bytes, copy.state)
}

fn superblock(it: &SuperblockText, out: &mut Vec<String>) {
    out.push(field("volume", &format!("{}{}", it.volume, label(&it.label))));
    out.push(field("layer", &format!("{}, format {}", it.layer, it.layer_format)));
    let made = it.created.as_deref().unwrap_or("an unknown time");
    let with = counted(it.made_with.into(), "device");
    out.push(field("made", &format!("at {made}, with {with}")));
    let changed = it.changed.as_deref().unwrap_or("an unknown time");
    let (change, parent) = (&it.change, &it.parent);
    out.push(field("change", &format!("{change} at {changed}, after {parent}")));
    out.push(field(
        "lengths",
        &format!(
            "{} exported; {} of data from byte {} on a device of {} bytes",
            bytes(it.exported_bytes),
            bytes(it.data_bytes),
            it.data_offset_bytes,
            it.device_bytes,
        ),
    ));
    for member in &it.members {
        let own = if member.index == it.index { ", this one" } else { "" };
        let since = member.since.as_ref().map_or(String::new(), |it| format!(" since {it}"));
        let marks: String = member.marks.iter().map(|mark| format!(", {mark}")).collect();
        let (index, uuid, state) = (member.index, &member.device, member.state);
        out.push(field("member", &format!("{index} {uuid} {state}{since}{marks}{own}")));
    }
}

fn session(copy: &Found<MarkText>) -> String {
    let place = place(copy);
    let Some(it) = &copy.says else { return place };
    let how = if it.serving { "served" } else { "stopped" };
    let acknowledged = if it.durable { "durable" } else { "buffered" };
    let reach = if it.beyond { "any machine" } else { "this machine" };
    format!(
        "{place}, mark {} of run {}: {how}; writes acknowledged when {acknowledged}, clients on \
    {reach}; name generation {}, plain name {}",
        it.number, it.run, it.generation, it.plain
    )
}

fn claim(copy: &Found<ClaimText>) -> String {
    let place = place(copy);
    let Some(it) = &copy.says else { return place };
    let last = u64::from(it.first_zone) + u64::from(it.zones) - 1;
    format!(
        "{place}, zones {} to {last} for volume {}{}",
        it.first_zone,
        it.volume,
        label(&it.label)
    )
}

fn root(copy: &Found<RootText>, newest: Option<u64>) -> String {
    let place = place(copy);
    let Some(it) = &copy.says else { return place };
    let newest = if newest == Some(it.number) { ", the newest" } else { "" };
    format!("{place}, number {}{newest}, life {}", it.number, it.life)
}

/// Adds the contents of a root.
fn covers(it: &RootText, out: &mut Vec<String>) {
    out.push(field(
        "covers",
        &format!(
            "stripes before {}; durable up to {}; {} mapped; {} of the directory, {} of counts",
            it.replay_from,
            it.durable,
            bytes(it.mapped_bytes),
            counted(it.directory_pages.into(), "page"),
            counted(it.count_pages.into(), "page"),
        ),
    ));
    let (lost, known) = (list(&it.lost), list(&it.known));
    let everywhere = it.everywhere;
    let text = format!("knows devices {known}; lost: {lost}; root {everywhere} is on all devices");
    out.push(field("", &text));
    for begin in &it.streams {
        let (stream, segment, slot, sector) =
            (begin.stream, begin.segment, begin.slot, begin.sector);
        let devices = list(&begin.devices);
        out.push(field(
            "stream",
            &format!("{stream} from segment {segment}, slot {slot}, sector {sector} on {devices}"),
        ));
    }
}

fn list(devices: &[u8]) -> String {
    let all: Vec<String> = devices.iter().map(u8::to_string).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}
