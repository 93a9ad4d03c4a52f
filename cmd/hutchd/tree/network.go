package tree

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"hutch/aggd/egress"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/profiles"
	"hutch/vmm"
)

// startProxy starts the VM's proxy if it is to have one.
func (v *vm) startProxy() error {
	if v.Config().Net != vmm.NetProxy {
		return nil
	}
	if v.s.cfg.Locald == "" {
		return fmt.Errorf("%w: net %s: there is no proxy program", fs.ErrUnsupported, vmm.NetProxy)
	}
	p, err := v.s.profiles.Get(v.Config().Profile)
	if err != nil {
		return err
	}
	v.goingOut.Lock()
	defer v.goingOut.Unlock()
	if v.proxy == nil {
		v.proxy = egress.Start(egress.Config{
			Path: v.s.cfg.Locald, Network: network(p), Log: &v.aggLog, Event: v.wentOut,
			Down: func(err error) {
				v.s.tell(v, ledger.VMs, Event{Time: time.Now(), VM: v.Name(), Kind: "proxy.died", Text: fs.Text(err)})
			},
		})
	}
	return nil
}

// stopProxy ends the proxy, if there is one.
func (v *vm) stopProxy() {
	v.goingOut.Lock()
	out := v.proxy
	v.proxy = nil
	v.goingOut.Unlock()
	if out != nil {
		out.Close()
	}
}

// egress returns the proxy, nil if there is none.
func (v *vm) egress() *egress.Proxy {
	v.goingOut.Lock()
	defer v.goingOut.Unlock()
	return v.proxy
}

func (v *vm) proxyPID() int {
	if out := v.egress(); out != nil {
		return out.PID()
	}
	return 0
}

// network puts what a profile allows as the proxy is told it.
func network(p *profiles.Profile) wire.Network {
	n := p.Network
	return wire.Network{
		Profile: p.Name, Allow: n.Allow, Block: n.Block, Private: n.Private,
		MaxBytes: n.MaxBytes, Timeout: wire.Duration(n.Timeout),
	}
}

// wentOut records a request that the proxy has ended, and tells of one that it refused.
func (v *vm) wentOut(e wire.NetEvent) {
	v.record(ledger.Net, ledger.Row{
		"timestamp": e.Time, "host": e.Host, "port": int(e.Port), "method": e.Method, "path": e.Path, "decision": e.Decision,
		"rule": e.Rule, "reason": e.Reason, "status": e.Status,
		"bytes_sent": e.Sent, "bytes_received": e.Received, "duration_ms": e.Duration, "process_name": e.Process,
	})
	if e.Decision != wire.Denied {
		return
	}
	at := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	v.alert("net.denied", fmt.Sprintf("%s %s: %s", e.Method, at, e.Reason))
}
