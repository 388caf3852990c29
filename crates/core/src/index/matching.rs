//! Finds the originals that match a probe: by every stage, by the page's id, and through the heads of families.
//!
//! Ids and addresses say whether a page and an original are the same page ([`Names`]). For people who ask why not, the
//! rule that excludes an original is found here, too.

use super::families::{Difference, Families, FamilyKeys, TABLES};
use super::original::{Candidate, MatchFields, Probe, ProbeStats, Relation};
use super::refusal::Refusal;
use super::ring::{key_of_address, masked};
use super::sketches::{Measured, Wanted};
use super::{Index, ring};
use crate::fingerprint::{AddressHash, Fingerprints, IdHash, Numbers, PerMille, SimHash, Sketch, TitleHash};
use crate::protocol::{ExpiryWatermarks, MatchedBy, Placement, Stage};

/// The most originals of its id that a page is compared with, oldest first. If this many unlike pages share one
/// canonical address, the address identifies no page.
const MAX_OF_ID: usize = 64;

impl Index {
    /// Passes every original that matches the probe to `visit`, each once with its strongest stage, in no particular
    /// order.
    ///
    /// Scans all codes if the probe's distance is larger than that of the tables ([`Index::set_max_distance`]).
    pub(crate) fn candidates(&self, probe: &Probe<'_>, mut visit: impl FnMut(Candidate)) -> ProbeStats {
        let exact = probe.fingerprints.exact;
        let code = probe.fingerprints.simhash.map(|code| masked(code, probe.scope));
        let bits_to = |position| self.bits_to(code?, position);
        let mut seen = ProbeStats::default();
        let mut match_in = |position: u64, match_fields: &MatchFields, by: MatchedBy| {
            visit(self.candidate(probe, (position, match_fields), by));
        };
        let mut show = |position: u64, match_fields: &MatchFields, bits: Option<u8>| {
            if let Some(by) = probe.verify(match_fields, bits) {
                match_in(position, match_fields, by);
            }
        };
        // Originals with this text that are stored by the text alone, and those that are stored by text, site and title
        // and have the page's title.
        let key = ring::key_of_exact(exact.0, probe.scope);
        let titled = probe.site.zip(probe.title).filter(|_| self.ring.has_titled());
        let with_title = titled.map(|(site, title)| ring::with_title(key, site, title));
        for (key, wanted) in [(Some(key), None), (with_title, titled)] {
            let Some(key) = key else { continue };
            self.by_exact.equal(0, key, &self.ring.positions(), |position| {
                seen.compared += 1;
                if let Some(match_fields) =
                    self.ring.match_fields(position).filter(|match_fields| match_fields.exact == exact)
                    && self.ring.title_in_key(position) == wanted
                {
                    show(position, &match_fields, bits_to(position));
                }
            });
        }
        if let Some(code) = code.filter(|_| probe.stages.contains(&Stage::SimHash)) {
            let compared = self.codes.probe(code, probe.max_distance, |position, distance| {
                // Originals with an equal text were shown above, whatever stage matches them.
                if let Some(match_fields) = self.ring.match_fields(position) {
                    seen.note(distance);
                    if match_fields.exact != exact {
                        show(position, &match_fields, Some(distance));
                    }
                }
            });
            seen.compared += compared;
        }
        // No table of codes leads to members of families, and the lookups above miss equal texts that are stored under
        // another title.
        let of_id = self.of_id_of(probe);
        let is_not_shown = |position: u64, match_fields: &MatchFields| {
            if match_fields.exact == exact {
                self.ring.title_in_key(position).is_some_and(|key| Some(key) != titled)
            } else {
                self.ring.is_member(position)
            }
        };
        for &position in &of_id {
            if let Some(match_fields) =
                self.ring.match_fields(position).filter(|match_fields| is_not_shown(position, match_fields))
            {
                show(position, &match_fields, bits_to(position));
            }
        }
        let sketch = probe.fingerprints.sketch.as_ref().filter(|_| probe.stages.contains(&Stage::MinHash));
        if let Some(sketch) = sketch {
            let may_match = |position| {
                self.ring.match_fields(position).is_some_and(|match_fields| probe.may_match_by_sketch(&match_fields))
            };
            let wanted = Wanted { ring: &self.ring, site: probe.site, sketch, scope: probe.scope, may_match, bits_to };
            let mut show = |position, slots, contained| {
                let Some(match_fields) = self.ring.match_fields(position) else { return };
                let bits = bits_to(position);
                bits.into_iter().for_each(|bits| seen.note(bits));
                // Originals that match in a stronger stage were shown above.
                if probe.verify(&match_fields, bits).is_none() {
                    match_in(position, &match_fields, MatchedBy::MinHash { slots, contained });
                }
            };
            let compared = self.sketches.probe(&wanted, |position, slots, contained| {
                if !of_id.contains(&position) {
                    show(position, slots, contained);
                }
            });
            let mut near = Vec::new();
            self.sketches.compare(&wanted, &of_id, |position, slots, contained| {
                near.push(position);
                show(position, slots, contained);
            });
            let is_left = |position: &u64| !near.contains(position) && (wanted.may_match)(*position);
            for position in of_id.iter().copied().filter(is_left) {
                if let Some((slots, share)) = self.contained_rendering(probe, sketch, position) {
                    show(position, slots, Some(share));
                }
            }
            seen.compared += compared + u32::try_from(of_id.len()).unwrap_or(u32::MAX);
        }
        seen
    }

    /// Returns whether a later original came from the page's own address. Only the oldest originals of the page's id
    /// are considered.
    pub(crate) fn has_later(&self, probe: &Probe<'_>, sequence: u64) -> bool {
        self.of_id_of(probe).into_iter().any(|position| {
            let fields = self.ring.match_fields(position);
            fields.is_some_and(|fields| {
                let is_later = fields.scope == probe.scope && fields.sequence > sequence;
                is_later && probe.relation_to(self.names(position, &fields)) == Relation::SameAddress
            })
        })
    }

    /// Returns the oldest originals of the page's id, in log order.
    fn of_id_of(&self, probe: &Probe<'_>) -> Vec<u64> {
        let Some(id) = probe.id else { return Vec::new() };
        let is_live = |position| self.is_live(position, &probe.watermarks);
        let is_held = |&position: &u64| !self.ring.is_forgotten(position);
        let search = || self.positions_named(id).into_iter().filter(is_held).collect();
        self.oldest_of_ids.borrow_mut().live(id, MAX_OF_ID, self.ring.positions().start, is_live, search)
    }

    fn candidate(&self, probe: &Probe<'_>, (position, match_fields): (u64, &MatchFields), by: MatchedBy) -> Candidate {
        let relation = probe.relation_to(self.names(position, match_fields));
        let slots = match by {
            MatchedBy::Exact => None,
            MatchedBy::MinHash { slots, .. } => Some(slots),
            MatchedBy::SimHash { .. } => {
                probe.fingerprints.sketch.as_ref().and_then(|sketch| self.sketches.distance_to(sketch, position))
            }
        };
        let of_site = || self.other_page_of_site(probe, (position, match_fields), relation, slots?);
        Candidate {
            sequence: match_fields.sequence,
            event_time: match_fields.event_time,
            family_role: self.ring.family_role(position),
            by,
            slots,
            relation,
            other_numbers: probe.are_other_numbers(by, || self.ring.numbers(position)),
            refused_by: probe.other_title(match_fields, relation).or_else(|| match by {
                MatchedBy::Exact => None,
                MatchedBy::SimHash { .. } => slots.and_then(|slots| self.sketch_refusal(probe, slots)).or_else(of_site),
                MatchedBy::MinHash { .. } => of_site(),
            }),
        }
    }

    /// Returns a refusal if a `SimHash` match is near, but the sketches are not similar enough.
    fn sketch_refusal(&self, probe: &Probe<'_>, slots: u8) -> Option<Refusal> {
        let least = probe.simhash_similarity?;
        let similarity = self.sketches.form()?.similarity(slots);
        (similarity < least).then_some(Refusal::SimHashSimilarity { similarity })
    }

    /// Returns the evidence that an original of the page's site is another page, unless ids or addresses say that it is
    /// the same.
    fn other_page_of_site(
        &self,
        probe: &Probe<'_>,
        (position, match_fields): (u64, &MatchFields),
        relation: Relation,
        slots: u8,
    ) -> Option<Refusal> {
        let rule = probe.same_site.filter(|_| probe.site.is_some() && probe.site == match_fields.site)?;
        let sketch = probe.fingerprints.sketch.as_ref()?;
        let (form, held) = (self.sketches.form()?, self.sketches.row(position)?);
        let two = match relation {
            Relation::Unrelated => rule.evidence_against_same_page(form, sketch, held, slots),
            Relation::Renderings => {
                rule.evidence_against_rendering(form, sketch, held, slots, probe.has_title_of(match_fields))
            }
            Relation::SamePage | Relation::SameAddress => None,
        };
        two.map(Refusal::SameSite)
    }

    /// Returns the differing slots of an original of which the page says that it is another rendering, and the share of
    /// the smaller of the two that is in the other one, if that is enough, however unlike they are as a whole: one is an
    /// article, the other one has menus and teasers around it.
    fn contained_rendering(&self, probe: &Probe<'_>, sketch: &Sketch, position: u64) -> Option<(u8, PerMille)> {
        let rule = probe.same_site?;
        let (form, slots) = (self.sketches.form()?, self.sketches.distance_to(sketch, position)?);
        let (held, match_fields) = (self.sketches.row(position)?, self.ring.match_fields(position)?);
        let relation = probe.relation_to(self.names(position, &match_fields));
        let share = form.contained(sketch, held, slots, 0).filter(|_| relation == Relation::Renderings)?;
        let evidence = rule.evidence_against_rendering(form, sketch, held, slots, probe.has_title_of(&match_fields));
        evidence.is_none().then_some((slots, share))
    }

    pub(super) fn bits_to(&self, masked: SimHash, position: u64) -> Option<u8> {
        if self.ring.is_member(position) {
            self.bits_to_member(masked, position)
        } else {
            self.codes.distance_to(masked, position)
        }
    }

    fn bits_to_member(&self, masked: SimHash, position: u64) -> Option<u8> {
        let code = self.ring.member_code(position)?;
        u8::try_from(ring::masked(code, self.ring.scope(position)).distance(masked)?).ok()
    }

    /// Passes the members of these families that match the probe to `visit`, each once with its strongest stage.
    /// Compares at most `most` members, those whose differences from the head are most like the page's
    /// ([`families`](super::families)), and a few with the page's title. `heads` are sequence numbers.
    pub(crate) fn members(
        &self,
        probe: &Probe<'_>,
        heads: &[u64],
        most: u16,
        mut visit: impl FnMut(Candidate),
    ) -> ProbeStats {
        let Fingerprints { numbers, sketch, .. } = &probe.fingerprints;
        let of_page = (numbers, sketch.as_deref(), probe.title);
        let heads = heads.iter().filter(|head| self.families.has_members(**head));
        let keys: Vec<FamilyKeys> = heads.filter_map(|&head| self.family_keys(head, of_page)).collect();
        if keys.is_empty() {
            return ProbeStats::default();
        }
        let is_live = |position| self.is_live(position, &probe.watermarks);
        let (found, left_out) = self.families.sharing(&keys, &self.ring.positions(), most.into(), is_live);
        let mut positions: Vec<u64> = found.into_iter().map(|(_, position)| position).collect();
        let of_title = self.families.of_title(&keys, &self.ring.positions(), is_live);
        let more: Vec<u64> = of_title.into_iter().filter(|position| !positions.contains(position)).collect();
        positions.extend(more);
        self.sketches.prefetch_positions(&self.ring, &positions);
        let compared = u32::try_from(positions.len()).unwrap_or(u32::MAX);
        let code = probe.fingerprints.simhash.map(|code| masked(code, probe.scope));
        let bits_to = |position| self.bits_to_member(code?, position);
        positions.retain(|&position| {
            let Some(match_fields) = self.ring.match_fields(position) else { return false };
            let Some(by) = probe.verify(&match_fields, bits_to(position)) else { return true };
            if by != MatchedBy::Exact {
                // Equal texts are found by their exact hash, whether they are members or not.
                visit(self.candidate(probe, (position, &match_fields), by));
            }
            false
        });
        if let Some(sketch) = probe.fingerprints.sketch.as_ref().filter(|_| probe.stages.contains(&Stage::MinHash)) {
            let may_match = |position| {
                self.ring.match_fields(position).is_some_and(|match_fields| probe.may_match_by_sketch(&match_fields))
            };
            let wanted = Wanted { ring: &self.ring, site: probe.site, sketch, scope: probe.scope, may_match, bits_to };
            self.sketches.compare(&wanted, &positions, |position, slots, contained| {
                if let Some(match_fields) = self.ring.match_fields(position) {
                    visit(self.candidate(probe, (position, &match_fields), MatchedBy::MinHash { slots, contained }));
                }
            });
        }
        ProbeStats { compared, left_out: u32::try_from(left_out).unwrap_or(u32::MAX), ..ProbeStats::default() }
    }

    /// Returns which tables are to hold an original with the fingerprints of a probe: those of all bands whose keys are
    /// not full, or, for a member of the family with this head, those of its differences from the head.
    #[must_use]
    pub(crate) fn placement(&self, probe: &Probe<'_>, family: Option<u64>, max_bucket: u16) -> Placement {
        let ExpiryWatermarks { times, first_sequence } = probe.watermarks;
        let is_live = |position| self.ring.is_live(position, first_sequence, times.minhash);
        let sketch = probe.fingerprints.sketch.as_ref();
        if let Some(head) = family
            && let Some(keys) =
                self.family_keys(head, (&probe.fingerprints.numbers, sketch.map(|sketch| &**sketch), probe.title))
        {
            let mut placement = Placement { family, ..Placement::EVERYWHERE };
            let positions = self.ring.positions();
            self.families.full(&keys, &positions, max_bucket.into(), is_live).for_each(|key| placement.skip(key));
            return placement;
        }
        sketch.map_or(Placement::EVERYWHERE, |sketch| {
            self.sketches.full_bands(&self.ring, (sketch, probe.scope), is_live)
        })
    }

    /// Returns the keys that a page with these numbers, this sketch and this title has in the family of a head; `None`
    /// if the head is not held.
    fn family_keys(
        &self,
        head: u64,
        (numbers, sketch, title): (&Numbers, Option<&[u8]>, Option<TitleHash>),
    ) -> Option<FamilyKeys> {
        let position = self.position_of(head)?;
        let form = self.sketches.form().zip(sketch).filter(|(form, sketch)| sketch.len() == form.bytes());
        let sketches = form.zip(self.sketches.row(position)).map(|((form, page), head)| (form, head, page));
        let title = title.filter(|title| self.ring.title(position) != Some(*title));
        Some(Difference { head, sketches, numbers: *numbers, title }.keys())
    }

    /// Returns the keys of the member at a position, without those that its placement skips.
    pub(super) fn family_keys_of(&self, position: u64) -> Option<FamilyKeys> {
        if self.ring.waits_to_leave(position) {
            return None;
        }
        let placement = self.ring.placement(position);
        let (numbers, title) = (self.ring.numbers(position)?, self.ring.title(position));
        let mut keys = self.family_keys(placement.family?, (&numbers, self.sketches.row(position), title))?;
        (0..TABLES).filter(|table| !placement.holds(*table)).for_each(|table| keys.skip(table));
        Some(keys)
    }

    /// Recomputes the keys of all members.
    pub(super) fn build_families(&mut self) {
        let mut families = std::mem::replace(&mut self.families, Families::new());
        families.build(&self.ring.positions(), |position| self.family_keys_of(position));
        self.families = families;
    }
}

/// The id and address of a page or an original.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) id: Option<IdHash>,
    /// Its own address, if that does not follow from the id.
    pub(super) address: Option<AddressHash>,
}

impl Names {
    /// Returns its own address, if need be from its id.
    fn own_address(self) -> Option<AddressHash> {
        self.address.or(self.id.map(AddressHash::of))
    }

    /// Returns whether the other one's id names its address.
    fn is_named_by(self, other: Self) -> bool {
        self.address.is_some() && self.address == other.id.map(AddressHash::of)
    }
}

impl Probe<'_> {
    /// Returns how the page is related to an original with these names.
    pub(super) fn relation_to(&self, original: Names) -> Relation {
        match self.has_id_of(original) {
            false => Relation::Unrelated,
            true if self.is_of_address_of(original) => Relation::SameAddress,
            true if self.is_variant => Relation::Renderings,
            true => Relation::SamePage,
        }
    }

    /// Returns whether page and original are the same page in any rendering: their ids are equal, or one has the
    /// other's address as its id, or the page is a variant and was fetched from the original's address, whatever
    /// canonical page the original named.
    fn has_id_of(&self, original: Names) -> bool {
        let page = self.names();
        (page.id.is_some() && page.id == original.id)
            || page.is_named_by(original)
            || original.is_named_by(page)
            || (self.is_variant && page.address.is_some() && page.address == original.address)
    }

    /// Returns whether both were fetched from the same address. If a variant has no address, its request comes from a
    /// release that did not send it.
    fn is_of_address_of(&self, original: Names) -> bool {
        let page = self.names();
        let is_known = page.address.is_some() || !self.is_variant;
        is_known && page.own_address().is_some() && page.own_address() == original.own_address()
    }

    const fn names(&self) -> Names {
        Names { id: self.id, address: self.address }
    }
}

impl Index {
    /// Returns the names of an original with these fields.
    pub(super) fn names(&self, position: u64, match_fields: &MatchFields) -> Names {
        Names { id: match_fields.id, address: self.ring.address(position) }
    }

    /// Returns every original in memory that has this id or the address that the id names, in any order.
    pub(super) fn positions_named(&self, id: IdHash) -> Vec<u64> {
        let mut found: Vec<u64> = self.positions_with_id(id).collect();
        let address = AddressHash::of(id);
        self.by_address.equal(0, key_of_address(address), &self.ring.positions(), |position| {
            if self.ring.address(position) == Some(address) && self.ring.id(position) != Some(id) {
                found.push(position);
            }
        });
        found
    }
}

impl Index {
    /// Returns why [`Index::candidates`] and [`Index::members`] do not show an original, or `None` if it is not held.
    /// Costs a probe: it is meant for explanations, not for the judge.
    #[must_use]
    pub(crate) fn why_not(&self, probe: &Probe<'_>, sequence: u64) -> Option<Refusal> {
        let position = self.position_of(sequence)?;
        let match_fields = self.ring.match_fields(position)?;
        if match_fields.scope != probe.scope {
            return Some(Refusal::Scope);
        }
        let uses = |stage| probe.stages.contains(&stage);
        let code = probe.fingerprints.simhash.map(|code| masked(code, probe.scope));
        let bits_to = |position| self.bits_to(code?, position);
        let bits = bits_to(position);
        let by_code = bits.filter(|_| uses(Stage::SimHash));
        let relation = probe.relation_to(self.names(position, &match_fields));
        let not_shown = probe.other_title(&match_fields, relation).unwrap_or(Refusal::Crowded);
        if probe.verify(&match_fields, bits).is_some() {
            return Some(not_shown);
        }
        let is_equal = uses(Stage::Exact) && match_fields.exact == probe.fingerprints.exact;
        if is_equal || by_code.is_some_and(|bits| bits <= probe.max_distance) {
            return Some(Refusal::Window);
        }
        let sketch = probe.fingerprints.sketch.as_ref().filter(|_| uses(Stage::MinHash));
        let measured = sketch.and_then(|sketch| {
            let may_match = |position| {
                self.ring.match_fields(position).is_some_and(|match_fields| probe.may_match_by_sketch(&match_fields))
            };
            let wanted = Wanted { ring: &self.ring, site: probe.site, sketch, scope: probe.scope, may_match, bits_to };
            self.sketches.measure(&wanted, position)
        });
        let Some(measured) = measured else {
            let far = Refusal::Distance { bits: by_code, similarity: None, contained: None };
            let has_others = uses(Stage::SimHash) || uses(Stage::MinHash);
            let short = if has_others { Refusal::TooShort } else { Refusal::Stages };
            return Some(by_code.map_or(short, |_| far));
        };
        Some(if let Some(refusal) = of_sketches(measured, bits, by_code) {
            refusal
        } else if probe.may_match_by_sketch(&match_fields) {
            not_shown
        } else {
            Refusal::Window
        })
    }
}

/// Returns why two sketches do not match; `None` when they do.
fn of_sketches(measured: Measured, bits: Option<u8>, by_code: Option<u8>) -> Option<Refusal> {
    let Measured { rules, evidence, shared, shingles } = measured;
    let (similarity, contained) = (evidence.estimate, evidence.contained);
    if shared >= rules.least_keys(shingles)
        && contained.zip(rules.containment).is_some_and(|(share, least)| share >= least)
    {
        return None;
    }
    if similarity < rules.min_similarity {
        let contained = contained.filter(|_| rules.containment.is_some());
        return Some(Refusal::Distance { bits: by_code, similarity: Some(similarity), contained });
    }
    if !rules.is_sure(evidence) {
        let limits = rules.low_confidence.limits(rules.form, evidence);
        return Some(Refusal::LowConfidence {
            similarity,
            least: limits.least,
            is_short: limits.is_short,
            contained,
            bits,
            max_distance: limits.max_distance,
        });
    }
    let needed = rules.keys_needed(shingles);
    (shared < needed).then_some(Refusal::SharedBands { similarity, shared, needed })
}
