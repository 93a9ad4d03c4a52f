package ninep

import "time"

// The messages. Those up to 77 are of 9P2000.L alone.
const (
	Rlerror      = 7
	Tstatfs      = 8
	Tlopen       = 12
	Tlcreate     = 14
	Tsymlink     = 16
	Tmknod       = 18
	Trename      = 20
	Treadlink    = 22
	Tgetattr     = 24
	Tsetattr     = 26
	Txattrwalk   = 30
	Txattrcreate = 32
	Treaddir     = 40
	Treaddirplus = 42 // our own: a Treaddir whose entries have attributes, of a fid or below it
	Tfsync       = 50
	Tlock        = 52
	Tgetlock     = 54
	Tlink        = 70
	Tmkdir       = 72
	Trenameat    = 74
	Tunlinkat    = 76
	Tversion     = 100
	Rversion     = 101
	Tauth        = 102
	Tattach      = 104
	Rerror       = 107
	Tflush       = 108
	Rflush       = 109
	Twalk        = 110
	Topen        = 112
	Tcreate      = 114
	Tread        = 116
	Twrite       = 118
	Tclunk       = 120
	Tremove      = 122
	Tstat        = 124
	Twstat       = 126
)

// A dialect is 9P2000 or 9P2000.L; a set of them says where a message belongs.
type dialect uint8

const (
	classic dialect = 1 << iota
	linux
	both = classic | linux
)

// maxWalk is the largest number of names in a Twalk.
const maxWalk = 16

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
	get      func(*cutter, *request)   // takes the fields off the wire
	bind     func(*session, *op) error // finds the fids, in the order of arrival
	serve    func(*session, *op) error // does the work and makes the reply
	slot     bool                      // may block: needs a slot
	detach   bool                      // ends its fid
}

// messages has all that a client may send but Tversion, by type.
var messages = [256]message{
	Tauth:   {name: "Tauth", dialects: both, get: getAuth, serve: (*session).auth},
	Tattach: {name: "Tattach", dialects: both, get: getAttach, bind: bindNew, serve: (*session).attach},
	Tflush:  {name: "Tflush", dialects: both, get: getFlush},
	Twalk:   {name: "Twalk", dialects: both, get: getWalk, bind: bindWalk, serve: (*session).walk},
	Tread:   {name: "Tread", dialects: both, get: getRead, bind: bindFid, serve: (*session).read, slot: true},
	Twrite:  {name: "Twrite", dialects: both, get: getWrite, bind: bindFid, serve: (*session).write, slot: true},
	Tclunk:  {name: "Tclunk", dialects: both, get: getFid, bind: bindDetach, serve: (*session).clunk, detach: true},
	Tremove: {name: "Tremove", dialects: both, get: getFid, bind: bindDetach, serve: (*session).remove, detach: true},

	Topen:   {name: "Topen", dialects: classic, get: getOpen, bind: bindFid, serve: (*session).openClassic},
	Tcreate: {name: "Tcreate", dialects: classic, get: getCreate, bind: bindFid, serve: (*session).createClassic},
	Tstat:   {name: "Tstat", dialects: classic, get: getFid, bind: bindFid, serve: (*session).stat},
	Twstat:  {name: "Twstat", dialects: classic, get: getWstat, bind: bindFid, serve: (*session).wstat},

	Tstatfs:      {name: "Tstatfs", dialects: linux, get: getFid, bind: bindFid, serve: (*session).statfs},
	Tlopen:       {name: "Tlopen", dialects: linux, get: getLopen, bind: bindFid, serve: (*session).openLinux},
	Tlcreate:     {name: "Tlcreate", dialects: linux, get: getLcreate, bind: bindFid, serve: (*session).createLinux},
	Tsymlink:     {name: "Tsymlink", dialects: linux, get: getSymlink, bind: bindFid, serve: (*session).symlink},
	Tmknod:       {name: "Tmknod", dialects: linux, get: getMknod, bind: bindFid, serve: (*session).mknod},
	Trename:      {name: "Trename", dialects: linux, get: getRename, bind: bindTwo, serve: (*session).rename},
	Treadlink:    {name: "Treadlink", dialects: linux, get: getFid, bind: bindFid, serve: (*session).readlink},
	Tgetattr:     {name: "Tgetattr", dialects: linux, get: getGetattr, bind: bindFid, serve: (*session).getattr},
	Tsetattr:     {name: "Tsetattr", dialects: linux, get: getSetattr, bind: bindFid, serve: (*session).setattr},
	Txattrwalk:   {name: "Txattrwalk", dialects: linux, get: getXattrwalk, bind: bindFid, serve: (*session).xattr},
	Txattrcreate: {name: "Txattrcreate", dialects: linux, get: getXattrcreate, bind: bindFid, serve: (*session).xattr},
	Treaddir:     {name: "Treaddir", dialects: linux, get: getRead, bind: bindFid, serve: (*session).readdir},
	Treaddirplus: {name: "Treaddirplus", dialects: linux, get: getReaddirplus, bind: bindFid, serve: (*session).readdirplus},
	Tfsync:       {name: "Tfsync", dialects: linux, get: getFsync, bind: bindFid, serve: (*session).sync},
	Tlock:        {name: "Tlock", dialects: linux, get: getLock, bind: bindFid, serve: (*session).lock},
	Tgetlock:     {name: "Tgetlock", dialects: linux, get: getGetlock, bind: bindFid, serve: (*session).getlock},
	Tlink:        {name: "Tlink", dialects: linux, get: getLink, bind: bindTwo, serve: (*session).link},
	Tmkdir:       {name: "Tmkdir", dialects: linux, get: getMkdir, bind: bindFid, serve: (*session).mkdir},
	Trenameat:    {name: "Trenameat", dialects: linux, get: getRenameat, bind: bindTwo, serve: (*session).renameat},
	Tunlinkat:    {name: "Tunlinkat", dialects: linux, get: getUnlinkat, bind: bindFid, serve: (*session).unlinkat},
}

func getFid(c *cutter, r *request) { r.fid = c.u32() }

func getFlush(c *cutter, r *request) { r.oldtag = c.u16() }

func getAuth(c *cutter, r *request) {
	r.fid, r.name, r.name2 = c.u32(), c.str(), c.str()
	getNuname(c, r)
}

func getAttach(c *cutter, r *request) {
	r.fid, r.fid2, r.name, r.name2 = c.u32(), c.u32(), c.str(), c.str()
	getNuname(c, r)
}

// getNuname takes the user's number, which 9P2000.L has and 9P2000 has not.
func getNuname(c *cutter, r *request) {
	if len(c.b) > 0 {
		r.uid = c.u32()
	}
}

// getWalk takes a Twalk; too many names are for the handler to refuse.
func getWalk(c *cutter, r *request) {
	r.fid, r.fid2 = c.u32(), c.u32()
	getNames(c, r)
}

func getNames(c *cutter, r *request) {
	n := int(c.u16())
	if n > 0 {
		r.names = make([]string, 0, min(n, maxWalk+1))
	}
	for i := 0; i < n && !c.bad; i++ {
		if name := c.str(); i <= maxWalk {
			r.names = append(r.names, name)
		}
	}
}

func getRead(c *cutter, r *request) { r.fid, r.offset, r.count = c.u32(), c.u64(), c.u32() }

func getReaddirplus(c *cutter, r *request) {
	getRead(c, r)
	getNames(c, r)
}

func getWrite(c *cutter, r *request) { r.fid, r.offset, r.data = c.u32(), c.u64(), c.data() }

func getOpen(c *cutter, r *request) { r.fid, r.flags = c.u32(), uint32(c.u8()) }

func getCreate(c *cutter, r *request) {
	r.fid, r.name, r.perm, r.flags = c.u32(), c.str(), c.u32(), uint32(c.u8())
}

// getWstat takes a Twstat, whose stat has its length twice.
func getWstat(c *cutter, r *request) {
	r.fid = c.u32()
	r.data = c.take(int(c.u16()))
}

func getLopen(c *cutter, r *request) { r.fid, r.flags = c.u32(), c.u32() }

func getLcreate(c *cutter, r *request) {
	r.fid, r.name, r.flags, r.perm, r.gid = c.u32(), c.str(), c.u32(), c.u32(), c.u32()
}

func getSymlink(c *cutter, r *request) {
	r.fid, r.name, r.name2, r.gid = c.u32(), c.str(), c.str(), c.u32()
}

// getMknod takes a Tmknod; the device's numbers are of no use.
func getMknod(c *cutter, r *request) {
	r.fid, r.name, r.perm = c.u32(), c.str(), c.u32()
	c.take(8)
	r.gid = c.u32()
}

func getRename(c *cutter, r *request) { r.fid, r.fid2, r.name = c.u32(), c.u32(), c.str() }

func getGetattr(c *cutter, r *request) { r.fid, r.mask = c.u32(), c.u64() }

func getSetattr(c *cutter, r *request) {
	r.fid, r.mask = c.u32(), uint64(c.u32())
	r.perm, r.uid, r.gid, r.size = c.u32(), c.u32(), c.u32(), c.u64()
	r.atime, r.mtime = c.time(), c.time()
}

func getXattrwalk(c *cutter, r *request) { r.fid, r.fid2, r.name = c.u32(), c.u32(), c.str() }

func getXattrcreate(c *cutter, r *request) {
	r.fid, r.name, r.size, r.flags = c.u32(), c.str(), c.u64(), c.u32()
}

// getFsync takes a Tfsync; older clients do not send datasync.
func getFsync(c *cutter, r *request) {
	r.fid = c.u32()
	if len(c.b) > 0 {
		r.flags = c.u32()
	}
}

func getLock(c *cutter, r *request) {
	r.fid, r.perm, r.flags = c.u32(), uint32(c.u8()), c.u32()
	r.offset, r.size, r.pid, r.name = c.u64(), c.u64(), c.u32(), c.str()
}

func getGetlock(c *cutter, r *request) {
	r.fid, r.perm = c.u32(), uint32(c.u8())
	r.offset, r.size, r.pid, r.name = c.u64(), c.u64(), c.u32(), c.str()
}

func getLink(c *cutter, r *request) { r.fid, r.fid2, r.name = c.u32(), c.u32(), c.str() }

func getMkdir(c *cutter, r *request) {
	r.fid, r.name, r.perm, r.gid = c.u32(), c.str(), c.u32(), c.u32()
}

func getRenameat(c *cutter, r *request) {
	r.fid, r.name, r.fid2, r.name2 = c.u32(), c.str(), c.u32(), c.str()
}

func getUnlinkat(c *cutter, r *request) { r.fid, r.name, r.flags = c.u32(), c.str(), c.u32() }
