package sandbox

import (
	"fmt"
	"net"
	"strconv"

	"hutch/aggd/egress"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/vmm"
)

// startProxy starts the VM's proxy if it is to have one.
func (v *Sandbox) startProxy() error {
	if v.Config().Net != vmm.NetProxy {
		return nil
	}
	if v.service.cfg.Locald == "" {
		return fmt.Errorf("%w: net %s: there is no proxy program", fs.ErrUnsupported, vmm.NetProxy)
	}
	p, err := v.service.Profiles.Get(v.Config().Profile)
	if err != nil {
		return err
	}
	if v.proxy.Load() == nil {
		v.proxy.Store(egress.Start(egress.Config{
			Path: v.service.cfg.Locald, Network: p.Network, Log: v.aggLog(), Event: v.wentOut,
			Down: func(err error) { v.tell(ledger.VMs, v.event("proxy.died", fs.Text(err))) },
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

// wentOut records a request that the proxy has ended, and tells of one that it refused.
func (v *Sandbox) wentOut(e wire.NetEvent) {
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
