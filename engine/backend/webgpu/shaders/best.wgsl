// The best of some scores, one after the other: the higher first, of equal ones the lower place. Lanes
// side by side look for it together, each among its own places. A kernel defines
//     const LANES: u32
//     fn score_at(place: u32) -> f32
struct Scored {
    score: f32,
    place: u32,
}
const NONE = -3.0e38;
const NOWHERE = 0xffffffffu;
var<workgroup> found: array<Scored, LANES>;

fn before(a: Scored, b: Scored) -> bool {
    return a.score > b.score || (a.score == b.score && a.place < b.place);
}

// The best of the places begin, begin + step, ... below `end` that come after another.
fn next(begin: u32, step: u32, end: u32, last: Scored) -> Scored {
    var best = Scored(NONE, NOWHERE);
    for (var place = begin; place < end; place += step) {
        let other = Scored(score_at(place), place);
        if (before(last, other) && before(other, best)) {
            best = other;
        }
    }
    return best;
}

// The best of what `group` lanes have.
fn best_of(lane: u32, group: u32, own: Scored) -> Scored {
    found[lane] = own;
    workgroupBarrier();
    for (var half = group / 2u; half > 0u; half /= 2u) {
        if (lane % group < half && before(found[lane + half], found[lane])) {
            found[lane] = found[lane + half];
        }
        workgroupBarrier();
    }
    let best = found[lane / group * group];
    workgroupBarrier();
    return best;
}
