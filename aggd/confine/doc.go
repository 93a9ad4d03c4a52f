// Package confine takes from a process that holds the network what else it could
// reach: aggd, locald and the proxy.
//
// Its parent starts it as a user of its own where the parent is root, else in a
// user namespace, in namespaces of its own but for the network and the mounts, and
// without capabilities (Attributes). At the beginning of its main it gives up the
// rest (Enter): descriptors that it was not given, all files but those of the
// resolver and the certificates (Landlock), the signals and abstract sockets of
// others (Landlock), and every system call that the runtime and the network do not
// need (seccomp): it can start nothing, trace nothing, mount nothing, and make no
// socket but those of IPv4 and IPv6.
//
// A mount namespace is left out: the process could not change mounts in either,
// and a copy of them would keep alive those that hutchd has ended.
package confine
