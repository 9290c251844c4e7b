//! Table of an advice for a terminal: at most 80 columns, with a bar of each layer's wear.

use hostftl_format::letters::Plain;
use hostftl_frontend::advise::{Answer, Told};
use hostftl_sim::{Offer, Relative};

use super::text::{label, shortest};
use crate::commands::compare::{NOTHING, times};
use crate::console::{Color, Console};
use crate::failure::Failure;
use crate::units::bytes;

/// Columns of a name. A longer one has a line of its own.
const NAME: usize = 23;
/// Columns of a bar, which is full at twice the wear without a layer.
const BAR: usize = 12;
/// Relative difference up to which the wear counts as that without a layer.
const EVEN: f64 = 0.03;

/// Prints the table: the layers that were examined in full, then the others.
pub(super) fn print(answer: &Answer, console: &mut Console) -> Result<(), Failure> {
    console.line(format_args!(
        "  {:NAME$} {:>6} {:BAR$} {:>6} {:>8} {:>8} {:>8}",
        "layer", "wear", "", "speed", "latency", "life", "memory"
    ))?;
    let none = answer.offer("passthrough");
    let mut order: Vec<&Told> = answer.offers.iter().filter(|it| it.offer.is_some()).collect();
    order.sort_by_key(|told| told.offer.as_ref().is_some_and(|offer| offer.is_screened));
    for told in order {
        let Some(offer) = &told.offer else { continue };
        line(answer, (told, offer), none, console)?;
    }
    console.line("  * verdict   + runner-up   ! exceeds a limit")
}

/// Prints the line of a layer.
fn line(
    answer: &Answer,
    (told, offer): (&Told, &Offer),
    none: Option<&Offer>,
    console: &mut Console,
) -> Result<(), Failure> {
    let Relative { wear, speed, latency } = offer.relative(none);
    let name = Some(&told.name);
    let mark = match &told.broken[..] {
        [] if name == answer.verdict.as_ref() => '*',
        [] if name == answer.runner_up.as_ref() => '+',
        [] => ' ',
        _ => '!',
    };
    let mut label = Plain(&label(&told.name)).to_string();
    if label.chars().count() > NAME {
        console.line(format_args!("{mark} {label}"))?;
        label = String::new();
    }
    let mark = if label.is_empty() { ' ' } else { mark };
    let about = if offer.is_screened { "~" } else { "" };
    let wear_text = match none {
        Some(_) => format!("{about}{}", times(wear)),
        None => format!("{about}{:.2}", offer.waf),
    };
    let color = match wear {
        _ if !told.broken.is_empty() => Some(Color::Red),
        Some(wear) if wear < 1.0 - EVEN => Some(Color::Green),
        Some(wear) if wear > 1.0 + EVEN => Some(Color::Red),
        _ => None,
    };
    let bar = format!("{:BAR$}", wear.map_or(String::new(), bar));
    let bar = color.map_or(bar.clone(), |color| console.paint(color, &bar));
    let years = if offer.years.is_some() { shortest(offer) } else { NOTHING.to_owned() };
    console.coloured(
        format_args!(
            "{mark} {label:NAME$} {wear_text:>6} {bar} {:>6} {:>8} {years:>8} {:>8}",
            times(speed),
            times(latency),
            bytes(offer.memory_bytes),
        )
        .to_string()
        .trim_end(),
    )
}

/// Draws a ratio in eighths of a column.
fn bar(ratio: f64) -> String {
    let eighths = (ratio / 2.0 * (8 * BAR) as f64).round().clamp(1.0, (8 * BAR) as f64) as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{rest}", "█".repeat(eighths / 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_half_full_at_the_wear_without_a_layer() {
        assert_eq!(bar(1.0), "██████");
        assert_eq!(bar(0.5), "███");
        assert_eq!(bar(0.02), "▏");
        assert_eq!(bar(9.0).chars().count(), BAR);
    }
}
