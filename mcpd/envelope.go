package mcpd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hutch/aggd/jsonrpc"
	"hutch/mcpd/attest"
	"hutch/mcpd/frame"
	"hutch/mcpd/policy"
	"hutch/mcpd/seal"
)

// ruleSealed is the rule by which a request is refused that is in no envelope,
// or in a bad one.
const ruleSealed = "security.envelope"

// An envelope is what a message came in.
type envelope struct {
	is     bool
	ticket uint64 // of its signature
	err    error  // why it is refused
}

// unseal takes a message out of its envelope, if it is in one. A message that
// is in none is not looked at.
func (s *session) unseal(f *frame.Frame) (env envelope) {
	if s.e.cfg.Seal == nil || !seal.Is(f.Payload) {
		return envelope{}
	}
	env.is = true
	f.Payload, env.ticket, env.err = s.e.cfg.Seal.Check(f.Payload)
	return env
}

// need refuses a request that is in no envelope where it has to be in one.
func (env *envelope) need(e *Endpoint, m message) {
	if env.is || is(m.Method, unsealed) {
		return
	}
	if p := e.rules.Load().policy; p != nil && p.Sealed().Required {
		env.err = seal.Refuse(seal.SEAL, seal.Unsigned, "requests have to be signed: ask for a token by %s", seal.Attest)
	}
}

// refusedEnvelope is the error for what came in a bad envelope, or for a key
// that is not attested, and tells of it.
func (e *Endpoint) refusedEnvelope(process, method, trace string, err error) *Error {
	var why *seal.Refusal
	if !errors.As(err, &why) {
		return failure(jsonrpc.CodeInternal, "envelope: %s", err)
	}
	e.alert("mcp.envelope", ruleSealed, trace, fmt.Sprintf("process %s: %s: %s: %s", process, method, why.Reason(), why.Text))
	refused := invalid("MCP request blocked by policy: %s: %s", ruleSealed, why.Text)
	refused.Data = why.Data()
	return refused
}

// refuseEnvelope has a call come to nothing but its row in the ledger.
func (c *call) refuseEnvelope(err error) {
	c.invalid = c.session.e.refusedEnvelope(c.process, c.message.Method, c.trace.ID(), err)
	var why *seal.Refusal
	if errors.As(err, &why) {
		c.verdict = verdict{denied: true, action: policy.Block, rule: ruleSealed, reason: why.Reason() + ": " + why.Text}
	}
}

// settle waits until the signature that the call came with is on the disk, so
// that it counts once, whatever happens.
func (c *call) settle() *Error {
	if c.ticket == 0 {
		return nil
	}
	if err := c.session.e.cfg.Seal.Wait(c.ticket); err != nil {
		return failure(jsonrpc.CodeInternal, "envelope: %s", err)
	}
	return nil
}

// planAttest plans the request to attest a key.
func planAttest(protocol string) func(context.Context, *call) (step, *Error) {
	return func(_ context.Context, c *call) (step, *Error) {
		e := c.session.e
		if e.cfg.Seal == nil {
			return nil, failure(jsonrpc.CodeMethod, "method not found: %s", c.message.Method)
		}
		return func(context.Context) (json.RawMessage, *Error) {
			r := attest.Request{Protocol: protocol, Params: c.message.params.raw, Scope: e.cfg.Profile()}
			if p := e.rules.Load().policy; p != nil {
				r.Life = p.Sealed().Life
			}
			result, err := e.cfg.Seal.Attest(r)
			if err != nil {
				return nil, e.refusedEnvelope(c.process, c.message.Method, c.trace.ID(), err)
			}
			return result, nil
		}, nil
	}
}

// offerSeal returns what initialize says of envelopes.
func (e *Endpoint) offerSeal() []byte {
	p := e.rules.Load().policy
	required := p != nil && p.Sealed().Required
	return fmt.Appendf(nil, `{"supported":true,"version":%q,"attestation_endpoint":%q,"required":%v}`, seal.SEAL, seal.Attest, required)
}
