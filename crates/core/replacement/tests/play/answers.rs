//! Answers that come late.

use lazaret_machine::Machine as _;
use lazaret_replacement::{Effect, EffectKind, Outcome, Spec};

use crate::{
    api::{Changed, key, option, spec},
    runner::{Play, input},
};

fn next_status(play: &mut Play, secs: i64) -> Effect {
    play.machine.think(play.now.plus_secs(secs), &play.fleet);
    let mut effects = core::iter::from_fn(|| play.machine.poll_effect());
    effects.find(|effect| matches!(effect.kind, EffectKind::SetStatus { .. })).unwrap()
}

#[test]
fn the_answer_to_a_status_may_come_after_the_news_of_a_later_write() {
    let mut play = Play::with(2, 2);
    let hear = |play: &mut Play| {
        let told = input(&play.api, &Changed::Policy(key("p"))).unwrap();
        play.machine.tell(told);
    };
    let first = Spec { node_options: vec![option("a", 10)], ..spec() };
    play.api.set_policy("p", first.clone());
    hear(&mut play);
    let Effect { id, kind } = next_status(&mut play, 0);
    let reply = play.api.perform(play.now, &kind);
    play.api.set_policy("p", Spec { max_concurrent: 2, ..first });
    hear(&mut play);
    play.machine.acknowledge(play.now, id, reply);
    let next = next_status(&mut play, 1);
    assert_eq!(play.api.perform(play.now, &next.kind).outcome, Outcome::Done);
    assert_eq!(play.status("p").observed_generation, 2);
}
