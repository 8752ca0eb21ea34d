//! Tests of the oracle.

use super::*;

const A: RequestId = RequestId::new(0);
const B: RequestId = RequestId::new(1);
const TX: TxId = TxId::new(5);

fn lines(from: &[(usize, u32)]) -> Lines {
    let tokens = from.iter().map(|(line, token)| (*line, Token::new(*token)));
    tokens.collect()
}

fn write(from: &[(usize, u32)], is_whole: bool) -> Asked {
    Asked::Write {
        lines: lines(from),
        is_whole,
        is_through: false,
    }
}

fn judge(oracle: &Oracle, reading: [u32; 4]) -> bool {
    oracle.judge(&reading.map(Token::new)).is_ok()
}

#[test]
fn a_write_may_be_there_before_its_answer_and_must_be_after() {
    let mut oracle = Oracle::new(4, Some(3));
    oracle.ask(A, write(&[(1, 7), (2, 8)], false));
    for reading in [[0, 0, 0, 0], [0, 7, 0, 0], [0, 7, 8, 0]] {
        assert!(judge(&oracle, reading), "{reading:?}");
    }
    assert!(!judge(&oracle, [0, 9, 8, 0]), "what was never written");
    assert!(!judge(&oracle, [7, 7, 8, 0]), "another line");
    assert!(oracle.done(A).is_ok());
    assert!(!judge(&oracle, [0, 7, 0, 0]));
    assert!(judge(&oracle, [0, 7, 8, 0]));
    assert!(oracle.done(A).is_err(), "it is answered once");
}

#[test]
fn a_page_is_whole_and_a_line_that_does_not_change_says_nothing() {
    let mut oracle = Oracle::new(4, Some(3));
    oracle.ask(A, write(&[(0, 7), (1, 8), (2, 0)], true));
    assert!(judge(&oracle, [7, 8, 0, 0]) && judge(&oracle, [0, 0, 0, 0]));
    assert!(!judge(&oracle, [7, 0, 0, 0]));
}

#[test]
fn a_transaction_is_there_whole_or_not_at_all() {
    let mut oracle = Oracle::new(4, Some(3));
    oracle.ask(A, Asked::WriteUnder(TX, lines(&[(0, 7), (3, 8)])));
    assert!(judge(&oracle, [0; 4]) && !judge(&oracle, [7, 0, 0, 0]));
    assert!(oracle.done(A).is_ok());
    assert_eq!(oracle.seen()[3], Token::new(8));
    assert_eq!(oracle.holder_of(3), Some(TX));
    assert!(judge(&oracle, [0; 4]) && !judge(&oracle, [7, 0, 0, 8]));
    let aborted = {
        let mut other = oracle.clone();
        other.ask(B, Asked::Abort(TX));
        assert!(other.done(B).is_ok() && other.seen()[3] == Token::ZERO);
        other
    };
    assert!(judge(&aborted, [0; 4]) && aborted.holder_of(3).is_none());
    oracle.ask(B, Asked::Commit(TX));
    assert!(judge(&oracle, [0; 4]) && judge(&oracle, [7, 0, 0, 8]));
    assert!(!judge(&oracle, [7, 0, 0, 0]));
    assert!(oracle.done(B).is_ok());
    assert!(judge(&oracle, [7, 0, 0, 8]) && !judge(&oracle, [0; 4]));
}

#[test]
fn the_host_keeps_its_side_of_the_contract() {
    let mut oracle = Oracle::new(4, Some(3));
    oracle.ask(A, write(&[(1, 7)], false));
    let read = |first| Asked::Read { first, count: 2 };
    assert!(!oracle.may_ask(&read(0)) && oracle.may_ask(&read(2)));
    assert!(!oracle.may_ask(&write(&[(1, 8)], false)));
    assert!(oracle.may_ask(&write(&[(2, 8)], false)));
    oracle.ask(B, Asked::WriteUnder(TX, lines(&[(3, 8)])));
    assert!(!oracle.may_ask(&Asked::Commit(TX)));
    assert!(oracle.may_ask(&Asked::WriteUnder(TX, lines(&[(2, 8)]))));
}

#[test]
fn who_writes_what_another_holds_must_be_refused_and_nobody_else() {
    let mut oracle = Oracle::new(4, Some(3));
    oracle.ask(A, Asked::WriteUnder(TX, lines(&[(0, 7)])));
    assert!(oracle.done(A).is_ok());
    let conflict = Refusal::Conflict { with: TX };
    let refused = |asked: Asked, why| {
        let mut oracle = oracle.clone();
        oracle.ask(A, asked);
        (
            oracle.clone().refused(A, why).is_ok(),
            oracle.done(A).is_ok(),
        )
    };
    assert_eq!(refused(write(&[(0, 9)], false), conflict), (true, false));
    assert_eq!(refused(write(&[(1, 9)], false), conflict), (false, true));
    let more = Asked::WriteUnder(TX, lines(&[(0, 9)]));
    assert_eq!(refused(more, conflict), (false, true));
    let unknown = Refusal::UnknownTransaction;
    assert_eq!(refused(Asked::Commit(TX), unknown), (false, true));
    assert_eq!(refused(Asked::Abort(TxId::new(6)), unknown), (true, false));
}

/// A run that waited for room may have begun its transaction, which may then be ended.
#[test]
fn a_transaction_is_in_doubt_whose_run_was_refused_at_a_standstill() {
    let mut oracle = Oracle::new(4, Some(3));
    oracle.fail();
    oracle.ask(A, Asked::WriteUnder(TX, lines(&[(0, 7), (1, 7)])));
    assert!(oracle.refused(A, Refusal::ReadOnly).is_ok());
    for ends in [Asked::Abort(TX), Asked::Commit(TX)] {
        let mut oracle = oracle.clone();
        oracle.ask(A, ends.clone());
        let mut unknown = oracle.clone();
        assert!(unknown.refused(A, Refusal::UnknownTransaction).is_ok());
        assert!(oracle.done(A).is_ok());
        oracle.ask(A, ends);
        assert!(oracle.done(A).is_err(), "it has ended");
    }
}

/// Three lines may be open.
#[test]
fn what_may_be_open_is_not_refused_for_want_of_room_and_no_more_is_done() {
    let mut oracle = Oracle::new(8, Some(3));
    oracle.ask(A, Asked::WriteUnder(TX, lines(&[(0, 7), (1, 7)])));
    assert!(oracle.done(A).is_ok());
    let refused = |tx: u32, from: &[(usize, u32)], why| {
        let mut oracle = oracle.clone();
        oracle.ask(B, Asked::WriteUnder(TxId::new(tx), lines(from)));
        let is_done = oracle.clone().done(B).is_ok();
        (oracle.refused(B, why).is_ok(), is_done)
    };
    let (same, other) = (TX.get(), 6);
    let (one, two) = ([(2, 8)], [(2, 8), (3, 8)]);
    assert_eq!(refused(same, &one, Refusal::TooLarge), (false, true));
    assert_eq!(refused(same, &two, Refusal::TooLarge), (true, false));
    assert_eq!(refused(other, &two, Refusal::TooLarge), (false, false));
    assert_eq!(refused(other, &two, Refusal::NoRoom), (true, false));
    assert_eq!(refused(other, &one, Refusal::NoRoom), (false, true));
    let again = [(0, 8), (1, 8), (2, 8)];
    assert_eq!(refused(same, &again, Refusal::NoRoom), (false, true));
    let mut plain = Oracle::new(8, None);
    plain.ask(A, Asked::Commit(TX));
    assert!(plain.clone().refused(A, Refusal::Unsupported).is_ok());
    assert!(plain.done(A).is_err());
}

/// Whether it was committed is not known, so its name may be in use or not.
#[test]
fn the_name_of_a_commit_that_a_cut_came_between_may_be_in_use() {
    let mut oracle = Oracle::new(4, Some(3));
    oracle.ask(A, Asked::WriteUnder(TX, lines(&[(0, 7)])));
    assert!(oracle.done(A).is_ok());
    let in_use = |oracle: &Oracle| {
        let mut oracle = oracle.clone();
        oracle.ask(A, Asked::WriteUnder(TX, lines(&[(1, 8)])));
        oracle.refused(A, Refusal::NameInUse).is_ok()
    };
    assert!(!in_use(&oracle));
    oracle.ask(B, Asked::Commit(TX));
    oracle.settle_on(&[Token::ZERO; 4]);
    assert!(in_use(&oracle));
}

#[test]
fn after_a_cut_what_was_found_is_what_is_there() {
    let mut oracle = Oracle::new(4, Some(3));
    oracle.ask(A, write(&[(1, 7)], false));
    oracle.ask(B, Asked::WriteUnder(TX, lines(&[(3, 8)])));
    oracle.settle_on(&[0, 7, 0, 0].map(Token::new));
    assert!(oracle.is_idle() && oracle.holder_of(3).is_none());
    assert!(judge(&oracle, [0, 7, 0, 0]) && !judge(&oracle, [0; 4]));
}
