fn main() {
    hostftl_chaos::catch_panics();
    let kind = std::env::args().nth(1).unwrap().parse().unwrap();
    let goal = hostftl_chaos::Goal {
        seeds: (0, 2000),
        steps: 0,
        limit: Some(std::time::Duration::from_secs(10)),
        threads: 1,
    };
    let mut c = hostftl_chaos::Campaign::new(kind, goal, None);
    match c.run(|_| true) {
        Err(v) => println!("{v:?}"),
        Ok(()) => {}
    }
    println!("{:?}", c.summary);
    println!("{}", c.summary.steps as f64 / c.summary.elapsed.as_secs_f64());
    for (n, c, r) in c.summary.tallies.rows("passthrough") {
        println!("{n} {c} {r}");
    }
}
