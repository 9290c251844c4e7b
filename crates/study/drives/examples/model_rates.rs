//! Prints the figures of models beside those of their data sheets: `cargo run --release -p
//! hostftl-drives --example model_rates [NAME]...`.

use hostftl_drives::models::{Figure, Model};

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    for model in Model::all()
        .iter()
        .filter(|it| names.is_empty() || names.iter().any(|n| it.name().contains(n.as_str())))
    {
        let start = std::time::Instant::now();
        let measured = model.measure().unwrap_or_else(|why| panic!("{}: {why}", model.name()));
        println!(
            "{} ({:.1} s) WAF {:.2}",
            model.name(),
            start.elapsed().as_secs_f64(),
            measured.write_amplification
        );
        for figure in Figure::ALL {
            let stated = if figure == Figure::Tbw { model.tbw() } else { model.figure(figure) };
            let has = measured.figure(figure);
            let ratio = stated.zip(has).map(|(a, b)| b / a).unwrap_or(f64::NAN);
            println!(
                "  {:22} {:>12.1} {:>12.1}  x{ratio:.3}",
                figure.key(),
                stated.unwrap_or(f64::NAN),
                has.unwrap_or(f64::NAN)
            );
        }
    }
}
