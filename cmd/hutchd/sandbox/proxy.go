package sandbox

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"hutch/aggd/egress"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd"
	"hutch/mcpd/history"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
	"hutch/profiles"
	"hutch/vmm"
)

// startProxy starts the VM's proxy if it is to have one.
func (v *Sandbox) startProxy() error {
	if v.Config().Net != vmm.NetProxy {
		return nil
	}
	if v.service.Locald == "" {
		return fmt.Errorf("%w: net %s: there is no proxy program", fs.ErrUnsupported, vmm.NetProxy)
	}
	p, err := v.service.Profiles.Get(v.Config().Profile)
	if err != nil {
		return err
	}
	if v.proxy.Load() == nil {
		v.proxy.Store(egress.Start(egress.Config{
			Path: v.service.Locald, Network: network(p), Log: v.AggLog(), Event: v.wentOut, Decide: v.goesOut,
			Down: func(err error) { v.Tell(ledger.VMs, v.NewEvent("proxy.died", fs.Text(err))) },
		}))
	}
	return nil
}

// stopProxy ends the proxy, if there is one.
func (v *Sandbox) stopProxy() {
	if out := v.proxy.Swap(nil); out != nil {
		out.Close()
	}
}

func (v *Sandbox) proxyPID() int {
	if out := v.proxy.Load(); out != nil {
		return out.PID()
	}
	return 0
}

// network returns what a VM of the profile may reach, and whether its policy has
// more to say of that than the patterns.
func network(p *profiles.Profile) wire.Network {
	n := p.Network
	if p.Policy.About(policy.OnHTTP) {
		n.Decide = wire.Duration(p.Policy.AskTime() + answerTime)
	}
	return n
}

// answerTime is how much longer than a person hutchd may take to answer.
const answerTime = 30 * time.Second

// goesOut decides a request that the patterns allow.
func (v *Sandbox) goesOut(ctx context.Context, e wire.NetEvent) wire.NetAnswer {
	r, err := history.Request(e)
	if err != nil {
		return wire.NetAnswer{Rule: "request", Reason: err.Error()}
	}
	r.VM, r.Profile = v.Name(), v.Config().Profile
	d := v.MCP.Decide(ctx, r)
	if d.Rule == policy.RuleNetwork { // the proxy knows which pattern of it
		return wire.NetAnswer{Allowed: true}
	}
	if d.Would != "" {
		d.Reason = fmt.Sprintf("%s%s: %s", history.Observed, d.Would, d.Reason)
	}
	return wire.NetAnswer{Allowed: d.Action == policy.Allow, Rule: d.Rule, Reason: d.Reason}
}

// wentOut records a request that the proxy has ended, and tells of one that it refused.
func (v *Sandbox) wentOut(e wire.NetEvent) {
	v.Record(ledger.Net, ledger.Row{
		"timestamp": e.Time, "host": e.Host, "port": int(e.Port), "method": e.Method, "path": e.Path, "decision": e.Decision,
		"rule": e.Rule, "reason": e.Reason, "status": e.Status,
		"bytes_sent": e.Sent, "bytes_received": e.Received, "duration_ms": e.Duration, "process_name": e.Process, "trace_id": e.Trace,
	})
	if e.Decision != wire.Denied {
		return
	}
	at := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	v.Alerted(mcpd.Alert{Kind: "net.denied", Rule: e.Rule, Trace: e.Trace, Text: fmt.Sprintf("%s %s: %s", e.Method, at, e.Reason)})
	if v.service.Denied != nil {
		v.service.Denied(v, e)
	}
}
