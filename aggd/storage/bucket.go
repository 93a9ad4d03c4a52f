package storage

import "time"

// A Bucket says where the files of a VM are in storage that speaks S3.
type Bucket struct {
	Endpoint  string `json:"endpoint"` // the URL of the server
	Name      string `json:"name"`
	Prefix    string `json:"prefix"` // of the keys of all its objects
	Region    string `json:"region"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Quota     int64  `json:"quota"` // how many bytes its objects may have; 0: any number
}

// Patience is how long one request may take, of a server that is dead or slow.
const Patience = 15 * time.Second

// MaxLine is the longest line between hutchd and the process that serves a
// Bucket: one for each Request and one for each Reply, as JSON.
const MaxLine = 32 << 20

// MaxRequests is how many requests are under way at once.
const MaxRequests = 32

// A Request is what that process is asked, the call of a Storage's method.
type Request struct {
	ID     uint64 `json:"id"`
	Method string `json:"method"`
	Name   string `json:"name,omitempty"`
	Off    int64  `json:"off,omitempty"`
	N      int64  `json:"n,omitempty"`
	How    How    `json:"how,omitempty"`
	Data   []byte `json:"data,omitempty"`
	Was    Info   `json:"was,omitzero"`
}

// A Reply is what it answers.
type Reply struct {
	ID    uint64 `json:"id"`
	Error string `json:"error,omitempty"` // what is wrong with the name, or with the server
	Data  []byte `json:"data,omitempty"`
	Info  Info   `json:"info,omitzero"`
	List  []Info `json:"list,omitempty"`
	More  bool   `json:"more,omitempty"`
}
