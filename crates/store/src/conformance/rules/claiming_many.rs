//! Taking many records in one write.

use std::collections::HashSet;

use crate::{
    Claimed,
    conformance::{Ability, Harness, given::*, race::race},
};

/// Each claim of many stands for itself: what somebody has takes nothing from the others, and the
/// answers come in the order of the claims. Of two claims of one key the first one gets it.
pub async fn each_of_many_claims_stands_for_itself<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let (known, stub) = (executing(&node).await, released(&node).await);
    let (twice, again) = (a_claim(), a_bare_claim());
    let claims = vec![
        a_claim(),
        a_claim_of(&known),
        twice.clone(),
        a_bare_claim(),
        by_another(&twice),
        a_claim_of(&stub),
        again.clone(),
        again,
        a_stepped_claim(),
    ];
    let answers = node.claim_all(claims.clone()).await.expect("claims are answered");
    assert_eq!(answers.len(), claims.len());
    let is_ours = [true, false, true, true, false, false, true, true, true];
    for ((claim, answer), is_ours) in claims.iter().zip(&answers).zip(is_ours) {
        let there = found(&node, claim.id).await;
        match answer {
            Claimed::Ours(record) => assert_eq!((&**record, is_ours), (&there.record, true)),
            Claimed::Theirs(found) => assert_eq!((&**found, is_ours), (&there, false)),
            Claimed::Gone => panic!("{claim:?} is gone"),
        }
        assert_eq!((there.record.owner == claim.owner, count(&node, claim.id).await), (is_ours, 1));
    }
    assert_eq!(found(&node, known.id).await.record, known);
    assert_eq!(found(&node, stub.id).await.record, stub);
    assert_eq!(node.claim_all(Vec::new()).await, Ok(Vec::new()));
}

/// Of many batches with the same keys, in whatever order, each key goes to exactly one (pitfall
/// 23).
pub async fn each_key_of_many_batches_goes_to_one<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    let batch = (0..16).map(|_| a_claim()).collect::<Vec<_>>();
    let batches = (0..16).map(|number| {
        let mut claims = batch.iter().map(by_another).collect::<Vec<_>>();
        claims.rotate_left(number);
        let node = nodes[number % 2].clone();
        async move { node.claim_all(claims).await.expect("claims are answered") }
    });
    let answers = race(batches).await.into_iter().flatten();
    let ours = answers.filter_map(|answer| match answer {
        Claimed::Ours(record) => Some(record.id),
        _ => None,
    });
    let ours = ours.collect::<Vec<_>>();
    assert_eq!(ours.len(), batch.len(), "each is told once that it is theirs");
    assert_eq!(ours.iter().collect::<HashSet<_>>().len(), batch.len());
}

/// Many claims issued again after a lost answer are ours, once (7).
pub async fn many_claims_issued_again_are_ours<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    for committed in [true, false] {
        let claims = vec![a_claim(), a_bare_claim(), a_stepped_claim()];
        let lost = harness.lose_next_answer(committed).await;
        if !Ability::LoseAnswers.is_there::<H>(lost) {
            return;
        }
        node.claim_all(claims.clone()).await.lost();
        for claim in &claims {
            assert_eq!(try_found(&node, claim.id).await.is_some(), committed);
        }
        let answers = node.claim_all(claims.clone()).await.expect("claims are answered");
        for (claim, answer) in claims.iter().zip(answers) {
            let ours = Ok(answer).ours();
            assert_eq!((ours.id, ours.owner, ours.attempt.number()), (claim.id, claim.owner, 1));
            assert_eq!(count(&node, claim.id).await, 1);
        }
    }
}
