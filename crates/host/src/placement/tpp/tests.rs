use super::*;

pub(in crate::placement) fn config() -> TppConfig {
    TppConfig {
        scan_period: Picos::from_micros(1_000),
        scan_pages: 3,
        arm_cost: Picos::from_nanos(20),
        fault_cost: Picos::from_nanos(1_000),
        migration_cost: Picos::from_nanos(2_000),
        migrations: 4,
        // A page takes 4.096 us.
        promotion_rate: BytesPerSec::new(1_000_000_000),
        demotion_watermark: Ratio::percent(2),
        active_pages: 2,
    }
}

fn sampler(config: &TppConfig) -> HintSampler {
    HintSampler::new(config, PageSize::KIB_4, 8)
}

fn lpas<const N: usize>(numbers: [u64; N]) -> [Lpa; N] {
    numbers.map(Lpa::new)
}

#[test]
fn scans_go_round_the_pages_of_the_device_in_order() {
    let mut sampler = sampler(&config());
    let is_on_device = |lpa: Lpa| lpa.get() != 1;
    let mut newly = Vec::new();
    sampler.scan(is_on_device, &mut newly);
    assert_eq!(newly, lpas([0, 2, 3]));
    newly.clear();
    sampler.scan(is_on_device, &mut newly);
    assert_eq!(newly, lpas([4, 5, 6]));
    assert!(sampler.take_armed(Lpa::new(0)));
    newly.clear();
    sampler.scan(is_on_device, &mut newly);
    // 7 and 0 are armed; 2 still is, so its translation is gone already.
    assert_eq!(newly, lpas([7, 0]));
    assert_eq!(sampler.stats().armed, 8);
}

#[test]
fn a_scan_goes_round_once_at_most() {
    let mut greedy = config();
    greedy.scan_pages = 1_000;
    let mut sampler = sampler(&greedy);
    let mut newly = Vec::new();
    sampler.scan(|_| true, &mut newly);
    assert_eq!(newly.len(), 8);
}

#[test]
fn an_armed_page_faults_once() {
    let mut sampler = sampler(&config());
    sampler.scan(|_| true, &mut Vec::new());
    assert!(!sampler.take_armed(Lpa::new(3)));
    assert!(sampler.take_armed(Lpa::new(2)));
    assert!(!sampler.take_armed(Lpa::new(2)));
    assert_eq!(sampler.stats().faults, 1);
}

#[test]
fn the_first_fault_makes_a_page_active_and_the_second_promotes_it() {
    let mut sampler = sampler(&config());
    let [page] = lpas([5]);
    assert_eq!(sampler.on_fault(Time::ZERO, page), HintFault::Activated);
    assert_eq!(sampler.on_fault(Time::ZERO, page), HintFault::Promote);
    sampler.promoted(Time::ZERO, page);
    sampler.audit(|_| true);
    // When it comes back to the device it begins anew.
    assert_eq!(sampler.on_fault(Time::ZERO, page), HintFault::Activated);
}

#[test]
fn the_page_longest_active_makes_room_on_the_list() {
    let mut sampler = sampler(&config());
    for page in lpas([0, 1, 2]) {
        assert_eq!(sampler.on_fault(Time::ZERO, page), HintFault::Activated);
    }
    sampler.audit(|_| true);
    let [first, last] = lpas([0, 2]);
    assert_eq!(sampler.on_fault(Time::ZERO, last), HintFault::Promote);
    assert_eq!(sampler.on_fault(Time::ZERO, first), HintFault::Activated);
}

#[test]
fn promotions_keep_to_the_rate() {
    let mut sampler = sampler(&config());
    let [first, second] = lpas([0, 1]);
    for page in [first, second] {
        sampler.on_fault(Time::ZERO, page);
    }
    sampler.promoted(Time::ZERO, first);
    let just_before = Time::from_picos(4_095_999);
    assert_eq!(
        sampler.on_fault(just_before, second),
        HintFault::RateLimited
    );
    let allowed = Time::from_picos(4_096_000);
    assert_eq!(sampler.on_fault(allowed, second), HintFault::Promote);
    assert_eq!(sampler.stats().rate_limited, 1);
}

#[test]
fn each_value_out_of_range_is_named() {
    assert_eq!(config().validate(), Vec::<String>::new());
    let bad = TppConfig {
        scan_period: Picos::ZERO,
        arm_cost: Picos::from_micros(1_001),
        migrations: 0,
        active_pages: 0,
        promotion_rate: BytesPerSec::new(999_999),
        demotion_watermark: Ratio::percent(51),
        ..config()
    };
    assert_eq!(bad.validate().len(), 6, "{:?}", bad.validate());
}
