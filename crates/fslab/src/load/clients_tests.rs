//! The loop beside a plain model, which looks at everybody at each nanosecond.

use super::*;

/// What a client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    /// Its answers lie there since then, or what it begins with.
    WaitsForTool(u64),
    WaitsForServer(u64),
    IsServed(u64),
    IsOver,
}

/// Rounds as (begin, clients, requests), with a sync that takes a function of the requests.
fn plain(clients: &Clients, sync: impl Fn(u64) -> u64) -> Vec<(u64, usize, u64)> {
    let count = usize::try_from(clients.count).unwrap();
    let mut does = vec![Does::WaitsForTool(0); count];
    // In the order in which they came.
    let mut to_tool: Vec<usize> = (0..count).collect();
    let mut to_server: Vec<usize> = Vec::new();
    let (mut left, mut rounds) = (clients.requests, Vec::new());
    let mut tool: Option<(usize, u64)> = None;
    // Until when the server works, and answers of it that are due.
    let (mut busy, mut answers): (u64, Vec<(u64, usize)>) = (0, Vec::new());
    let mut waited_from = None;
    for now in 0.. {
        // Answers that are sent come to the tool at once, and a nanosecond may hold any of these.
        loop {
            if answers.first().is_some_and(|(at, _)| *at == now) {
                let (_, client) = answers.remove(0);
                does[client] = Does::WaitsForTool(now);
                to_tool.push(client);
            } else if let Some((client, _)) = tool.filter(|(_, until)| *until == now) {
                let sent = clients.pipeline.min(left);
                left -= sent;
                does[client] = if sent > 0 {
                    Does::WaitsForServer(sent)
                } else {
                    Does::IsOver
                };
                if sent > 0 {
                    to_server.push(client);
                }
                tool = None;
            } else if tool.is_none() && !to_tool.is_empty() {
                let took = clients.tool_ns + clients.tool_request_ns * clients.pipeline;
                tool = Some((to_tool.remove(0), now + took));
            } else {
                break;
            }
        }
        if does.iter().all(|each| *each == Does::IsOver) {
            return rounds;
        }
        if now < busy {
            continue;
        }
        if to_server.is_empty() {
            waited_from = Some(now);
            continue;
        }
        if waited_from.take().is_some() && clients.wake_ns > 0 {
            busy = now + clients.wake_ns;
            continue;
        }
        let taken = std::mem::take(&mut to_server);
        let mut requests = 0;
        for client in &taken {
            if let Does::WaitsForServer(sent) = does[*client] {
                requests += sent;
                does[*client] = Does::IsServed(sent);
            }
        }
        rounds.push((now, taken.len(), requests));
        let work = clients.receive_ns * taken.len() as u64 + clients.request_ns * requests;
        busy = now + clients.round_ns + work + clients.sync_ns + sync(requests);
        for client in taken {
            busy += clients.answer_ns;
            answers.push((busy, client));
        }
    }
    unreachable!("time has no end");
}

/// The same of the loop.
fn looped(clients: &Clients, sync: impl Fn(u64) -> u64) -> Vec<(u64, usize, u64)> {
    let nanos = |at: Time| (at - Time::ZERO).get() / 1_000;
    let mut now = Time::ZERO;
    let mut of = Loop::new(clients.clone(), now);
    let mut rounds = Vec::new();
    while let Some(begin) = of.begins(now) {
        let (taken, took) = of.take(begin);
        let requests = taken.iter().sum();
        rounds.push((nanos(begin), taken.len(), requests));
        let rest = clients.round_ns + clients.sync_ns + sync(requests);
        now = of.answer(taken.len(), begin + took + Picos::from_nanos(rest));
    }
    rounds
}

fn some(count: u64, pipeline: u64, requests: u64) -> Clients {
    Clients {
        count,
        pipeline,
        requests,
        bytes: 45,
        receive_ns: 5,
        request_ns: 3,
        answer_ns: 7,
        round_ns: 20,
        wake_ns: 11,
        sync_ns: 4,
        tool_ns: 9,
        tool_request_ns: 2,
    }
}

#[test]
fn rounds_are_those_of_the_plain_model() {
    let mut state = 18_u64;
    let mut draw = |most: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % most
    };
    let mut sizes = std::collections::BTreeSet::new();
    for nth in 0..400 {
        let clients = Clients {
            receive_ns: draw(12),
            request_ns: draw(9),
            answer_ns: 1 + draw(12),
            round_ns: draw(40),
            wake_ns: draw(20),
            sync_ns: draw(9),
            tool_ns: 1 + draw(20),
            tool_request_ns: draw(5),
            ..some(1 + draw(9), 1 + draw(4), 1 + draw(90))
        };
        let (each, all) = (draw(4), 1 + draw(500));
        let sync = |requests: u64| all + each * requests;
        let wanted = plain(&clients, sync);
        assert_eq!(looped(&clients, sync), wanted, "{nth}: {clients:?}");
        let answered: u64 = wanted.iter().map(|(_, _, requests)| requests).sum();
        assert_eq!(answered, clients.requests);
        sizes.extend(wanted.iter().map(|(_, taken, _)| *taken));
    }
    // One client alone, most of them, and all between share a sync somewhere.
    assert!((1..=8).all(|size| sizes.contains(&size)), "{sizes:?}");
}

#[test]
fn one_client_waits_for_each_of_its_requests() {
    let clients = some(1, 4, 40);
    let rounds = looped(&clients, |_| 100);
    // Tool 9 + 4 · 2, then awake, receive, requests, round, write and sync, answer.
    let each = 17 + 11 + 5 + 4 * 3 + 20 + 4 + 100 + 7;
    let wanted = (0..10).map(|nth| (17 + 11 + nth * each, 1, 4));
    assert_eq!(rounds, wanted.collect::<Vec<_>>());
}

#[test]
fn a_quicker_sync_is_shared_by_fewer() {
    let mean = |took: u64| {
        let clients = Clients {
            tool_ns: 40,
            ..some(50, 1, 5_000)
        };
        let rounds = looped(&clients, |_| took);
        5_000 / rounds.len()
    };
    assert!(mean(0) < mean(100), "{} {}", mean(0), mean(100));
    assert!(mean(100) < mean(1_000), "{} {}", mean(100), mean(1_000));
}

#[test]
fn what_cannot_be_is_one_sentence() {
    let text = |count: u64, more: &str| {
        format!(
            "{{\"count\":{count},\"pipeline\":1,\"requests\":9,\"bytes\":45,\"receive_ns\":1,\
             \"request_ns\":1,\"answer_ns\":1,\"round_ns\":1,\"wake_ns\":1,\"sync_ns\":1,\
             \"tool_ns\":1,\"tool_request_ns\":1{more}}}"
        )
    };
    assert_eq!(Clients::parse(&text(3, "")).unwrap().count, 3);
    for (text, said) in [
        (text(0, ""), "clients: count is 0; it must be 1 to 1000"),
        (text(1, ",\"more\":1"), "unknown field `more`"),
        ("{}".to_owned(), "missing field `count`"),
    ] {
        let error = Clients::parse(&text).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains('\n'), "{error}");
    }
}
