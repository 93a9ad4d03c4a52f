package vmm

import (
	"hutch/profiles"
	"hutch/relay/port"
)

// NetProxy is the network of a VM that has HTTP and HTTPS, through a proxy of
// the host on PortProxy.
const NetProxy = profiles.NetProxy

// Listen returns the ports that a driver listens on for the machine.
func (s Spec) Listen() []uint32 {
	if s.Net == NetProxy {
		return []uint32{PortAgent, PortMCP, PortProxy}
	}
	return []uint32{PortAgent, PortMCP}
}

// proxyEnv returns the variables that tell the programs of a guest where its
// proxy is, and the agent to serve it.
func proxyEnv(net string) []string {
	if net != NetProxy {
		return nil
	}
	const url = "http://" + port.ProxyAddress
	const none = "localhost,127.0.0.1,::1"
	return []string{
		"http_proxy=" + url, "https_proxy=" + url, "HTTP_PROXY=" + url, "HTTPS_PROXY=" + url,
		port.NetVariable + "=" + port.NetProxy,
		"no_proxy=" + none, "NO_PROXY=" + none,
	}
}
