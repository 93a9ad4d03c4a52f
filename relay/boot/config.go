package boot

// A Config is what a VM's init is told by the host, as JSON in /config of the
// archive that its kernel begins with.
type Config struct {
	Hostname string   `json:"hostname"`
	Env      []string `json:"env"`   // K=V, for all that runs in the guest
	Image    string   `json:"image"` // serial of the disk with the image, read-only
	Layer    string   `json:"layer"` // serial of the disk for what is written
	Shares   []Share  `json:"shares"`
	PIDs     int      `json:"pids,omitempty"` // most processes and threads of the guest's commands; 0: any number
}

// A Share is a folder of the host that the guest mounts, over its port 5001.
type Share struct {
	Name     string `json:"name"` // in the tree that the host serves
	Path     string `json:"path"` // in the guest
	ReadOnly bool   `json:"readonly,omitempty"`
	Live     bool   `json:"live,omitempty"` // the host may change what is read-only, too
}

// Ready is what the helper writes to its descriptor ReadyFD when all is
// mounted. It keeps that open for as long as it lives.
const (
	Ready   = "ready\n"
	ReadyFD = 3
)
