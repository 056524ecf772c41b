//! Breakers of guards, and windows in which evictions may begin.
#![allow(clippy::unwrap_used, reason = "tests")]

use lazaret_model::{
    Breaker, BreakerStatus, BreakerUnit, Counted, DisruptionGuard, RecentlyOut, Share, Stop, Timestamp, Unit,
    Window, WindowError, WindowStatus,
};

/// 2026-01-03 is a Saturday.
const SATURDAY: i64 = 1_767_398_400;

#[test]
fn opens_and_closes() {
    let window = Window::parse("Sat 02:00", "4h", "+01:00").unwrap();
    let at = |hours: i64| Timestamp::from_secs(SATURDAY + hours * 3_600);
    for (hours, open) in [(0, false), (1, true), (4, true), (5, false), (24 * 7 + 1, true), (25, false)] {
        assert_eq!(window.is_open(at(hours)), open, "{hours} h");
    }
    assert_eq!(window.next_start(at(0)), at(1));
    assert_eq!(window.next_start(at(2)), at(24 * 7 + 1));
    let nightly = Window::parse("23:30", "1h30m", "").unwrap();
    let minute = |minutes: i64| Timestamp::from_secs(SATURDAY + minutes * 60);
    for (minutes, open) in [(-31, false), (-30, true), (0, true), (59, true), (60, false), (1_410, true)] {
        assert_eq!(nightly.is_open(minute(minutes)), open, "{minutes} min");
    }
    assert_eq!(nightly.next_start(minute(60)), minute(1_410));
    assert!(Window::parse("00:00", "24h", "UTC").unwrap().is_open(minute(77)), "always");
}

/// Of several windows the first that opens counts, and those that touch are one.
#[test]
fn a_guard_is_open_while_one_of_its_windows_is() {
    let guard = DisruptionGuard {
        name: "nights".into(),
        windows: vec![
            Window::parse("02:00", "1h", "").unwrap(),
            Window::parse("03:00", "30m", "").unwrap(),
            Window::parse("Sat 12:00", "1h", "").unwrap(),
        ],
        ..DisruptionGuard::default()
    };
    let minute = |minutes: i64| Timestamp::from_secs(SATURDAY + minutes * 60);
    for (now, opens, changes) in [
        (0, Some(120), 120),
        (120, None, 180),
        (179, None, 180),
        (180, None, 210),
        (210, Some(720), 720),
        (720, None, 780),
        (780, Some(1_440 + 120), 1_440 + 120),
        (1_440 + 720, Some(2 * 1_440 + 120), 2 * 1_440 + 120),
    ] {
        let expected = opens.map_or(WindowStatus::Open, |minutes| WindowStatus::ClosedUntil(minute(minutes)));
        assert_eq!(guard.window_at(minute(now)), Some(expected), "{now} min");
        assert_eq!(Window::unchanged_until(&guard.windows, minute(now)), minute(changes), "{now} min");
    }
    assert_eq!(DisruptionGuard::default().window_at(minute(0)), None, "no windows");
    assert_eq!(Window::unchanged_until(&[], minute(0)), Timestamp::NEVER);
    assert_eq!(
        &*guard.stop_message(Stop::Window, &BreakerStatus::default(), ""),
        "no window of DisruptionGuard nights is open"
    );
}

#[test]
fn what_is_not_understood_is_named() {
    for (start, duration, zone, wrong) in [
        ("Sat", "1h", "", WindowError::Start),
        ("sat 02:00", "1h", "", WindowError::Start),
        ("24:00", "1h", "", WindowError::Start),
        ("2:00", "1h", "", WindowError::Start),
        ("02:60", "1h", "", WindowError::Start),
        ("+2:00", "1h", "", WindowError::Start),
        ("02:00", "", "", WindowError::Duration),
        ("02:00", "0s", "", WindowError::Duration),
        ("02:00", "25h", "", WindowError::Duration),
        ("02:00", "1h3", "", WindowError::Duration),
        ("02:00", "99999999999h", "", WindowError::Duration),
        ("Mon 02:00", "169h", "", WindowError::Duration),
        ("02:00", "1h", "Europe/Zurich", WindowError::Zone),
        ("02:00", "1h", "+15:00", WindowError::Zone),
        ("02:00", "1h", "é", WindowError::Zone),
    ] {
        assert_eq!(Window::parse(start, duration, zone), Err(wrong), "{start} {duration} {zone}");
    }
    assert_eq!(Window::parse("Sun 23:59", "168h", "-03:30").unwrap().offset_seconds, -12_600);
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

#[test]
fn trips_at_once_and_resets_after_a_while_below() {
    let breaker = Breaker {
        max_out_of_service: Share::Percent(20),
        of: BreakerUnit::Devices,
        window_seconds: 0,
        reset_after_seconds: 60,
    };
    let mut status = BreakerStatus::default();
    let mut tripped_at = |seconds: i64, out: u64, reset: Option<i64>| {
        status = breaker.step(
            at(seconds),
            reset.map(at),
            status,
            Counted { out, total: 10, ..Counted::default() },
        );
        status.tripped
    };
    for (seconds, out, expected) in [
        (0, 2, false),
        (1, 3, true),
        (2, 2, true),
        (61, 2, true),
        (62, 2, false),
        (63, 3, true),
        (64, 1, true),
        (70, 3, true),
        (100, 1, true),
        (159, 0, true),
        (160, 0, false),
    ] {
        assert_eq!(tripped_at(seconds, out, None), expected, "{out} at {seconds} s");
    }
    assert!(tripped_at(200, 9, None));
    assert!(!tripped_at(210, 9, Some(205)), "by a person's word");
    assert!(!tripped_at(300, 5, Some(205)), "as long as it is above");
    assert!(!tripped_at(310, 0, Some(205)));
    assert!(tripped_at(320, 4, Some(205)), "and trips when it rises again");
}

fn node(name: &str) -> Unit {
    Unit::Node(name.into())
}

#[test]
fn what_was_out_of_service_counts_for_the_window_and_no_longer() {
    let mut recent = RecentlyOut::default();
    let back = |recent: &RecentlyOut| recent.back().cloned().collect::<Vec<_>>();
    recent.see(at(0), 60, [node("a"), node("b")].into());
    recent.see(at(1_000), 60, [node("b")].into());
    assert_eq!(back(&recent), [node("a")], "it was out of service until now, however long nobody looked");
    assert_eq!(recent.ends(60), Some((at(1_060), at(1_060))));
    recent.see(at(1_030), 60, [node("a")].into());
    assert_eq!((back(&recent), recent.ends(60)), (vec![node("b")], Some((at(1_090), at(1_090)))));
    recent.see(at(1_089), 60, [node("a")].into());
    assert_eq!(back(&recent), [node("b")]);
    recent.see(at(1_090), 60, [node("a")].into());
    assert_eq!((back(&recent), recent.ends(60)), (vec![], None));
    recent.see(at(1_100), 60, [].into());
    recent.see(at(10), 60, [].into());
    assert_eq!(recent.ends(60), Some((at(70), at(70))), "a clock that was set back");
}

#[test]
fn what_a_controller_before_saw_counts_until_it_said() {
    let until = Some(at(500));
    let mut recent =
        RecentlyOut::inherit(&BreakerStatus { recent: 3, recent_until: until, ..BreakerStatus::default() });
    recent.see(at(450), 60, [].into());
    assert_eq!((recent.inherited(), recent.ends(60)), (3, Some((at(500), at(500)))));
    recent.see(at(500), 60, [].into());
    assert_eq!((recent.inherited(), recent.ends(60)), (0, None));
    let mut late =
        RecentlyOut::inherit(&BreakerStatus { recent: 3, recent_until: until, ..BreakerStatus::default() });
    late.see(at(0), 60, [].into());
    assert_eq!(late.ends(60), Some((at(60), at(60))), "never longer than the window");
}

/// A controller was killed while devices were out of service. They were back before the next one led.
#[test]
fn what_came_back_while_no_controller_led_counts_from_the_start_of_the_next() {
    let until = Some(at(80));
    let status =
        BreakerStatus { out_of_service: 4, recent: 1, recent_until: until, ..BreakerStatus::default() };
    let mut recent = RecentlyOut::inherit(&status);
    recent.see(at(50), 60, [node("a")].into());
    assert_eq!((recent.inherited(), recent.ends(60)), (3, Some((at(80), at(110)))), "one is out still");
    recent.see(at(80), 60, [node("a")].into());
    assert_eq!(recent.inherited(), 2);
    recent.see(at(81), 60, [].into());
    assert_eq!((recent.inherited(), recent.back().count()), (2, 1), "and that one is known by its name");
    recent.see(at(110), 60, [].into());
    assert_eq!(recent.inherited(), 0);
}

/// A clock that was set back must not keep a breaker tripped until it has caught up.
#[test]
fn a_clock_set_back_delays_nothing() {
    let breaker = Breaker {
        max_out_of_service: Share::Count(0),
        of: BreakerUnit::Devices,
        window_seconds: 0,
        reset_after_seconds: 10,
    };
    let count = |out| Counted { out, total: 4, ..Counted::default() };
    let tripped = breaker.step(at(1_000), None, BreakerStatus::default(), count(1));
    let below = breaker.step(at(1_001), None, tripped, count(0));
    let back = breaker.step(at(100), None, below, count(0));
    assert!(back.tripped && !breaker.step(at(110), None, back, count(0)).tripped);
}

#[test]
fn a_breaker_counts_how_often_it_tripped() {
    let breaker = Breaker {
        max_out_of_service: Share::Count(0),
        of: BreakerUnit::Devices,
        window_seconds: 0,
        reset_after_seconds: 10,
    };
    let mut status = BreakerStatus::default();
    for (seconds, out, trips) in
        [(0, 0, 0), (1, 1, 1), (2, 0, 1), (3, 1, 1), (20, 0, 1), (31, 0, 1), (40, 2, 2)]
    {
        let count = Counted { out, total: 4, ..Counted::default() };
        status = breaker.step(at(seconds), None, status, count);
        assert_eq!(status.trips, trips, "{out} at {seconds} s");
    }
}

#[test]
fn a_percentage_of_a_small_fleet_permits_one() {
    for (percent, total, expected) in [
        (10, 9, 1),
        (10, 1, 1),
        (10, 10, 1),
        (10, 25, 2),
        (20, 4, 1),
        (0, 9, 0),
        (0, 0, 0),
        (50, 0, 0),
        (100, 3, 3),
    ] {
        assert_eq!(Share::Percent(percent).of(total), expected, "{percent}% of {total}");
    }
    assert_eq!(Share::Count(0).of(9), 0, "a number is what it is");
}
