//! The call that the guards judge, filled anew from each event without allocating.

use crate::event::{FieldId, Record, Whole};
use tollgate::guard::{GuardContext, MonetaryAmount, Scope, ToolCallRequest, ToolGrant};

/// The largest grant index: scopes hold every grant up to the one that is used, so it bounds memory.
const LAST_GRANT: u64 = 65_535;

/// The fields that the guards read; what no configured limit needs is not read.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallFields {
    pub agent: Option<FieldId>,
    pub capability: Option<FieldId>,
    pub grant: Option<FieldId>,
    pub cost: Option<FieldId>,
}

/// An event as the guards see it, or what it lacks.
pub struct Call {
    fields: CallFields,
    request: ToolCallRequest,
    scope: Scope,
    pub has_agent: bool,
    pub has_capability: bool,
    /// The grant's index; `None` when the field is no index.
    pub grant: Option<usize>,
    pub cost: Whole,
}

impl Call {
    pub fn new(fields: CallFields) -> Self {
        Self {
            fields,
            request: ToolCallRequest::default(),
            scope: Scope::default(),
            has_agent: false,
            has_capability: false,
            grant: None,
            cost: Whole::Absent,
        }
    }

    /// Takes the next event.
    #[inline]
    pub fn read(&mut self, record: &Record) {
        let copy = |id: Option<FieldId>, text: &mut String| {
            text.clear();
            let found = id.and_then(|id| record.field(id).text());
            text.push_str(found.unwrap_or(""));
            found.is_some()
        };
        let whole = |id: Option<FieldId>| id.map_or(Whole::Absent, |id| record.field(id).whole());
        self.has_agent = copy(self.fields.agent, &mut self.request.agent_id);
        self.has_capability = copy(self.fields.capability, &mut self.request.capability.id);
        self.grant = match whole(self.fields.grant) {
            Whole::Absent => Some(0),
            Whole::Is(index) if index <= LAST_GRANT => Some(index as usize),
            Whole::Is(_) | Whole::Bad => None,
        };
        self.cost = whole(self.fields.cost);
        let Some(grant) = self.grant else { return };
        if self.scope.grants.len() <= grant {
            self.scope.grants.resize_with(grant + 1, ToolGrant::default);
        }
        let declared = &mut self.scope.grants[grant].max_cost_per_invocation;
        match (self.cost, declared) {
            (Whole::Is(units), Some(amount)) => amount.units = units,
            (Whole::Is(units), none) => *none = Some(MonetaryAmount { units, currency: String::new() }),
            (Whole::Absent | Whole::Bad, declared) => *declared = None,
        }
    }

    /// The call in the guards' terms.
    #[inline]
    pub fn context(&self) -> GuardContext<'_> {
        GuardContext {
            request: &self.request,
            scope: &self.scope,
            agent_id: &self.request.agent_id,
            server_id: "",
            matched_grant_index: self.grant,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Kind, Schema};

    fn fields() -> CallFields {
        let mut schema = Schema::new(&[]).unwrap();
        let mut field = |name| Some(schema.field(name));
        CallFields {
            agent: field("agent"),
            capability: field("capability"),
            grant: field("grant"),
            cost: field("cost"),
        }
    }

    fn read(call: &mut Call, values: [(Option<FieldId>, Kind, &str); 2]) {
        let mut record = Record::new(8);
        values.into_iter().for_each(|(id, kind, text)| record.field_mut(id.unwrap()).set(kind, text));
        call.read(&record);
    }

    #[test]
    fn a_call_carries_its_grants_cost_and_nothing_of_the_call_before() {
        let fields = fields();
        let mut call = Call::new(fields);
        read(&mut call, [(fields.agent, Kind::Text, "a"), (fields.cost, Kind::Number, "5")]);
        let units = |call: &Call| {
            let context = call.context();
            let grant = &context.scope.grants[context.matched_grant_index.unwrap()];
            grant.max_cost_per_invocation.as_ref().map(|amount| amount.units)
        };
        assert_eq!(
            (call.has_agent, call.has_capability, call.grant, units(&call)),
            (true, false, Some(0), Some(5))
        );
        read(&mut call, [(fields.capability, Kind::Number, "7"), (fields.grant, Kind::Number, "3")]);
        assert_eq!(
            (call.has_agent, call.has_capability, call.grant, units(&call)),
            (false, true, Some(3), None)
        );
        assert_eq!(call.context().request.capability.id, "7");
        assert_eq!(call.context().agent_id, "");
    }

    #[test]
    fn a_grant_that_is_no_index_is_no_grant() {
        let fields = fields();
        let mut call = Call::new(fields);
        for (kind, text, grant) in [
            (Kind::Number, "65535", Some(65_535)),
            (Kind::Number, "65536", None),
            (Kind::Number, "-1", None),
            (Kind::Text, "0", None),
            (Kind::Plain, "2", Some(2)),
        ] {
            read(&mut call, [(fields.grant, kind, text), (fields.agent, Kind::Text, "a")]);
            assert_eq!(call.grant, grant, "{text}");
        }
    }
}
