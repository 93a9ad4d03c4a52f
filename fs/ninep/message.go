package ninep

import (
	"encoding/binary"
	"time"

	"hutch/fs/ninep/wire"
)

var le = binary.LittleEndian

// A dialect is 9P2000 or 9P2000.L; a set of them says where a message belongs.
type dialect uint8

const (
	classic dialect = 1 << iota
	linux
	both = classic | linux
)

// A request holds the fields of any T message. Those that stand for the same
// kind of thing share a place, so that one handler serves both dialects.
type request struct {
	typ    uint8
	tag    uint16
	oldtag uint16
	fid    uint32
	fid2   uint32 // newfid, afid, dfid, target
	name   string // or uname, or version
	name2  string // newname, symlink's target, aname
	names  []string
	flags  uint32 // of open, create, unlinkat, lock
	perm   uint32
	mask   uint64 // of getattr and setattr
	offset uint64
	count  uint32 // length of a lock is in size
	data   []byte // points into the message
	uid    uint32
	gid    uint32
	size   uint64
	pid    uint32
	atime  time.Time
	mtime  time.Time
}

// A message is a row of the table of messages.
type message struct {
	name     string
	dialects dialect
	get      func(*wire.Cutter, *request) // takes the fields off the wire
	bind     func(*session, *op) error    // finds the fids, in the order of arrival
	serve    func(*session, *op) error    // does the work and makes the reply
	entry    bool                         // name is to be an entry of the directory fid
	slot     bool                         // may block: needs a slot
	detach   bool                         // ends its fid
}

// messages has all that a client may send but Tversion, by type.
var messages = [256]message{
	wire.Tauth:   {name: "Tauth", dialects: both, get: getAuth, serve: (*session).auth},
	wire.Tattach: {name: "Tattach", dialects: both, get: getAttach, bind: bindNew, serve: (*session).attach},
	wire.Tflush:  {name: "Tflush", dialects: both, get: getFlush},
	wire.Twalk:   {name: "Twalk", dialects: both, get: getWalk, bind: bindWalk, serve: (*session).walk},
	wire.Tread:   {name: "Tread", dialects: both, get: getRead, bind: bindFid, serve: (*session).read, slot: true},
	wire.Twrite:  {name: "Twrite", dialects: both, get: getWrite, bind: bindFid, serve: (*session).write, slot: true},
	wire.Tclunk:  {name: "Tclunk", dialects: both, get: getFid, bind: bindDetach, serve: (*session).clunk, detach: true},
	wire.Tremove: {name: "Tremove", dialects: both, get: getFid, bind: bindDetach, serve: (*session).remove, detach: true},

	wire.Topen:   {name: "Topen", dialects: classic, get: getOpen, bind: bindFid, serve: (*session).openClassic},
	wire.Tcreate: {name: "Tcreate", dialects: classic, get: getCreate, bind: bindFid, serve: (*session).createClassic},
	wire.Tstat:   {name: "Tstat", dialects: classic, get: getFid, bind: bindFid, serve: (*session).stat},
	wire.Twstat:  {name: "Twstat", dialects: classic, get: getWstat, bind: bindFid, serve: (*session).wstat},

	wire.Tstatfs:      {name: "Tstatfs", dialects: linux, get: getFid, bind: bindFid, serve: (*session).statfs},
	wire.Tlopen:       {name: "Tlopen", dialects: linux, get: getLopen, bind: bindFid, serve: (*session).openLinux},
	wire.Tlcreate:     {name: "Tlcreate", dialects: linux, get: getLcreate, bind: bindFid, serve: (*session).createLinux},
	wire.Tsymlink:     {name: "Tsymlink", dialects: linux, get: getSymlink, bind: bindFid, serve: (*session).symlink, entry: true},
	wire.Tmknod:       {name: "Tmknod", dialects: linux, get: getMknod, bind: bindFid, serve: (*session).mknod, entry: true},
	wire.Trename:      {name: "Trename", dialects: linux, get: getTwo, bind: bindTwo, serve: (*session).rename},
	wire.Treadlink:    {name: "Treadlink", dialects: linux, get: getFid, bind: bindFid, serve: (*session).readlink},
	wire.Tgetattr:     {name: "Tgetattr", dialects: linux, get: getGetattr, bind: bindFid, serve: (*session).getattr},
	wire.Tsetattr:     {name: "Tsetattr", dialects: linux, get: getSetattr, bind: bindFid, serve: (*session).setattr},
	wire.Txattrwalk:   {name: "Txattrwalk", dialects: linux, get: getTwo, bind: bindFid, serve: (*session).xattr},
	wire.Txattrcreate: {name: "Txattrcreate", dialects: linux, get: getXattrcreate, bind: bindFid, serve: (*session).xattr},
	wire.Treaddir:     {name: "Treaddir", dialects: linux, get: getRead, bind: bindFid, serve: (*session).readdir},
	wire.Treaddirplus: {name: "Treaddirplus", dialects: linux, get: getReaddirplus, bind: bindFid, serve: (*session).readdirplus},
	wire.Tfsync:       {name: "Tfsync", dialects: linux, get: getFsync, bind: bindFid, serve: (*session).sync},
	wire.Tlock:        {name: "Tlock", dialects: linux, get: getLock, bind: bindFid, serve: (*session).lock},
	wire.Tgetlock:     {name: "Tgetlock", dialects: linux, get: getGetlock, bind: bindFid, serve: (*session).getlock},
	wire.Tlink:        {name: "Tlink", dialects: linux, get: getTwo, bind: bindTwo, serve: (*session).link, entry: true},
	wire.Tmkdir:       {name: "Tmkdir", dialects: linux, get: getMkdir, bind: bindFid, serve: (*session).mkdir, entry: true},
	wire.Trenameat:    {name: "Trenameat", dialects: linux, get: getRenameat, bind: bindTwo, serve: (*session).renameat},
	wire.Tunlinkat:    {name: "Tunlinkat", dialects: linux, get: getUnlinkat, bind: bindFid, serve: (*session).unlinkat, entry: true},
}

func getFid(c *wire.Cutter, r *request) { r.fid = c.U32() }

func getFlush(c *wire.Cutter, r *request) { r.oldtag = c.U16() }

func getAuth(c *wire.Cutter, r *request) {
	r.fid, r.name, r.name2 = c.U32(), c.Str(), c.Str()
	getNuname(c, r)
}

func getAttach(c *wire.Cutter, r *request) {
	r.fid, r.fid2, r.name, r.name2 = c.U32(), c.U32(), c.Str(), c.Str()
	getNuname(c, r)
}

// getNuname takes the user's number, which 9P2000.L has and 9P2000 has not.
func getNuname(c *wire.Cutter, r *request) {
	if len(c.B) > 0 {
		r.uid = c.U32()
	}
}

// getWalk takes a Twalk; too many names are for the handler to refuse.
func getWalk(c *wire.Cutter, r *request) {
	r.fid, r.fid2 = c.U32(), c.U32()
	getNames(c, r)
}

func getNames(c *wire.Cutter, r *request) {
	n := int(c.U16())
	if n > 0 {
		r.names = make([]string, 0, min(n, wire.MaxWalk+1))
	}
	for i := 0; i < n && !c.Bad; i++ {
		if name := c.Str(); i <= wire.MaxWalk {
			r.names = append(r.names, name)
		}
	}
}

func getRead(c *wire.Cutter, r *request) { r.fid, r.offset, r.count = c.U32(), c.U64(), c.U32() }

func getReaddirplus(c *wire.Cutter, r *request) {
	getRead(c, r)
	getNames(c, r)
}

func getWrite(c *wire.Cutter, r *request) { r.fid, r.offset, r.data = c.U32(), c.U64(), c.Data() }

func getOpen(c *wire.Cutter, r *request) { r.fid, r.flags = c.U32(), uint32(c.U8()) }

func getCreate(c *wire.Cutter, r *request) {
	r.fid, r.name, r.perm, r.flags = c.U32(), c.Str(), c.U32(), uint32(c.U8())
}

// getWstat takes a Twstat, whose stat has its length twice.
func getWstat(c *wire.Cutter, r *request) {
	r.fid = c.U32()
	r.data = c.Take(int(c.U16()))
}

func getLopen(c *wire.Cutter, r *request) { r.fid, r.flags = c.U32(), c.U32() }

func getLcreate(c *wire.Cutter, r *request) {
	r.fid, r.name, r.flags, r.perm, r.gid = c.U32(), c.Str(), c.U32(), c.U32(), c.U32()
}

func getSymlink(c *wire.Cutter, r *request) {
	r.fid, r.name, r.name2, r.gid = c.U32(), c.Str(), c.Str(), c.U32()
}

// getMknod takes a Tmknod; the device's numbers are of no use.
func getMknod(c *wire.Cutter, r *request) {
	r.fid, r.name, r.perm = c.U32(), c.Str(), c.U32()
	c.Take(8)
	r.gid = c.U32()
}

func getTwo(c *wire.Cutter, r *request) { r.fid, r.fid2, r.name = c.U32(), c.U32(), c.Str() }

func getGetattr(c *wire.Cutter, r *request) { r.fid, r.mask = c.U32(), c.U64() }

func getSetattr(c *wire.Cutter, r *request) {
	r.fid, r.mask = c.U32(), uint64(c.U32())
	r.perm, r.uid, r.gid, r.size = c.U32(), c.U32(), c.U32(), c.U64()
	r.atime, r.mtime = c.Time(), c.Time()
}

func getXattrcreate(c *wire.Cutter, r *request) {
	r.fid, r.name, r.size, r.flags = c.U32(), c.Str(), c.U64(), c.U32()
}

// getFsync takes a Tfsync; older clients do not send datasync.
func getFsync(c *wire.Cutter, r *request) {
	r.fid = c.U32()
	if len(c.B) > 0 {
		r.flags = c.U32()
	}
}

func getLock(c *wire.Cutter, r *request) {
	r.fid, r.perm, r.flags = c.U32(), uint32(c.U8()), c.U32()
	r.offset, r.size, r.pid, r.name = c.U64(), c.U64(), c.U32(), c.Str()
}

func getGetlock(c *wire.Cutter, r *request) {
	r.fid, r.perm = c.U32(), uint32(c.U8())
	r.offset, r.size, r.pid, r.name = c.U64(), c.U64(), c.U32(), c.Str()
}

func getMkdir(c *wire.Cutter, r *request) {
	r.fid, r.name, r.perm, r.gid = c.U32(), c.Str(), c.U32(), c.U32()
}

func getRenameat(c *wire.Cutter, r *request) {
	r.fid, r.name, r.fid2, r.name2 = c.U32(), c.Str(), c.U32(), c.Str()
}

func getUnlinkat(c *wire.Cutter, r *request) { r.fid, r.name, r.flags = c.U32(), c.Str(), c.U32() }
