//! Closed queueing networks: the throughput of chips for a given number of requests in progress.

/// Exact mean value analysis. `requests` requests circulate among stations in turn. Station `k`
/// serves them in order of arrival, with exponential times of mean `demands[k]`. Returns the
/// requests completed per unit of time, and the time per visit at each station.
pub fn mean_value(demands: &[f64], requests: u32) -> (f64, Vec<f64>) {
    let mut queue = vec![0.0; demands.len()];
    let mut times = demands.to_vec();
    let mut rate = 0.0;
    for under_way in 1..=requests {
        for ((time, demand), length) in times.iter_mut().zip(demands).zip(&queue) {
            *time = demand * (1.0 + length);
        }
        rate = f64::from(under_way) / times.iter().sum::<f64>();
        for (length, time) in queue.iter_mut().zip(&times) {
            *length = rate * time;
        }
    }
    (rate, times)
}

/// Returns the requests completed per mean service time, if each of `requests` requests goes to a
/// random one of `chips` chips and service times are exponential.
pub fn balanced_throughput(chips: u32, requests: u32) -> f64 {
    let (chips, requests) = (f64::from(chips), f64::from(requests));
    chips * requests / (chips + requests - 1.0)
}

/// Returns the mean number of `chips` chips that are hit by at least one of `requests` random
/// requests.
pub fn busy_chips(chips: u32, requests: u32) -> f64 {
    let chips = f64::from(chips);
    chips * (1.0 - (1.0 - 1.0 / chips).powf(requests.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_four_chips() {
        let rows = [(1, 1.0), (2, 1.6), (4, 2.286), (8, 2.909), (16, 3.368)];
        for (requests, rate) in rows {
            let exact = mean_value(&[0.25; 4], requests).0;
            assert!((balanced_throughput(4, requests) - rate).abs() < 0.000_51);
            assert!((balanced_throughput(4, requests) - exact).abs() < 1e-12);
        }
    }

    /// Checks Little's law and the bound of the slowest station.
    #[test]
    fn the_slowest_station_sets_the_rate() {
        let demands = [1.0, 3.0, 0.5];
        let (rate, times) = mean_value(&demands, 200);
        assert!((rate - 1.0 / 3.0).abs() < 1e-9, "{rate}");
        assert!((rate * times.iter().sum::<f64>() - 200.0).abs() < 1e-9);
        let (rate, times) = mean_value(&demands, 1);
        assert!((rate - 1.0 / 4.5).abs() < 1e-12 && times == demands);
    }

    /// Enumerates all assignments of four requests to three chips.
    #[test]
    fn busy_chips_are_those_of_a_full_count() {
        let hit = |throw: u32| {
            let chips: std::collections::BTreeSet<u32> =
                (0..4).map(|request| throw / 3u32.pow(request) % 3).collect();
            chips.len()
        };
        let mean = (0..81).map(hit).sum::<usize>() as f64 / 81.0;
        assert!((busy_chips(3, 4) - mean).abs() < 1e-12, "{mean}");
    }
}
