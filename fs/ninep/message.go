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
	get      fields
	bind     func(*session, *op) error // finds the fids, in the order of arrival
	serve    func(*session, *op) error // does the work and makes the reply
	entry    bool                      // name is to be an entry of the directory fid
	slot     bool                      // may block: needs a slot
	detach   bool                      // ends its fid
}

// Fields take those of a message off the wire, one after the other.
type fields []func(*wire.Cutter, *request)

// messages has all that a client may send but Tversion, by type.
var messages = [256]message{
	wire.Tauth:   {name: "Tauth", dialects: both, get: fields{getFid, getName, getName2, getMore}, serve: (*session).auth},
	wire.Tattach: {name: "Tattach", dialects: both, get: fields{getFid, getFid2, getName, getName2, getMore}, bind: bindNew, serve: (*session).attach},
	wire.Tflush:  {name: "Tflush", dialects: both, get: fields{getOldtag}},
	wire.Twalk:   {name: "Twalk", dialects: both, get: fields{getFid, getFid2, getNames}, bind: bindWalk, serve: (*session).walk},
	wire.Tread:   {name: "Tread", dialects: both, get: fields{getFid, getOffset, getCount}, bind: bindFid, serve: (*session).read, slot: true},
	wire.Twrite:  {name: "Twrite", dialects: both, get: fields{getFid, getOffset, getData}, bind: bindFid, serve: (*session).write, slot: true},
	wire.Tclunk:  {name: "Tclunk", dialects: both, get: fields{getFid}, bind: bindDetach, serve: (*session).clunk, detach: true},
	wire.Tremove: {name: "Tremove", dialects: both, get: fields{getFid}, bind: bindDetach, serve: (*session).remove, detach: true},

	wire.Topen:   {name: "Topen", dialects: classic, get: fields{getFid, getMode}, bind: bindFid, serve: (*session).openClassic},
	wire.Tcreate: {name: "Tcreate", dialects: classic, get: fields{getFid, getName, getPerm, getMode}, bind: bindFid, serve: (*session).createClassic},
	wire.Tstat:   {name: "Tstat", dialects: classic, get: fields{getFid}, bind: bindFid, serve: (*session).stat},
	wire.Twstat:  {name: "Twstat", dialects: classic, get: fields{getFid, getWstat}, bind: bindFid, serve: (*session).wstat},

	wire.Tstatfs:      {name: "Tstatfs", dialects: linux, get: fields{getFid}, bind: bindFid, serve: (*session).statfs},
	wire.Tlopen:       {name: "Tlopen", dialects: linux, get: fields{getFid, getFlags}, bind: bindFid, serve: (*session).openLinux},
	wire.Tlcreate:     {name: "Tlcreate", dialects: linux, get: fields{getFid, getName, getFlags, getPerm, getGID}, bind: bindFid, serve: (*session).createLinux},
	wire.Tsymlink:     {name: "Tsymlink", dialects: linux, get: fields{getFid, getName, getName2, getGID}, bind: bindFid, serve: (*session).symlink, entry: true},
	wire.Tmknod:       {name: "Tmknod", dialects: linux, get: fields{getFid, getName, getPerm, getDevice, getGID}, bind: bindFid, serve: (*session).mknod, entry: true},
	wire.Trename:      {name: "Trename", dialects: linux, get: fields{getFid, getFid2, getName}, bind: bindTwo, serve: (*session).rename},
	wire.Treadlink:    {name: "Treadlink", dialects: linux, get: fields{getFid}, bind: bindFid, serve: (*session).readlink},
	wire.Tgetattr:     {name: "Tgetattr", dialects: linux, get: fields{getFid, getMask}, bind: bindFid, serve: (*session).getattr},
	wire.Tsetattr:     {name: "Tsetattr", dialects: linux, get: fields{getFid, getChange}, bind: bindFid, serve: (*session).setattr},
	wire.Txattrwalk:   {name: "Txattrwalk", dialects: linux, get: fields{getFid, getFid2, getName}, bind: bindFid, serve: (*session).xattr},
	wire.Txattrcreate: {name: "Txattrcreate", dialects: linux, get: fields{getFid, getName, getSize, getFlags}, bind: bindFid, serve: (*session).xattr},
	wire.Treaddir:     {name: "Treaddir", dialects: linux, get: fields{getFid, getOffset, getCount}, bind: bindFid, serve: (*session).readdir},
	wire.Treaddirplus: {name: "Treaddirplus", dialects: linux, get: fields{getFid, getOffset, getCount, getNames}, bind: bindFid, serve: (*session).readdirplus},
	wire.Tfsync:       {name: "Tfsync", dialects: linux, get: fields{getFid, getMore}, bind: bindFid, serve: (*session).sync},
	wire.Tlock:        {name: "Tlock", dialects: linux, get: fields{getFid, getType, getFlags, getOffset, getSize, getPID, getName}, bind: bindFid, serve: (*session).lock},
	wire.Tgetlock:     {name: "Tgetlock", dialects: linux, get: fields{getFid, getType, getOffset, getSize, getPID, getName}, bind: bindFid, serve: (*session).getlock},
	wire.Tlink:        {name: "Tlink", dialects: linux, get: fields{getFid, getFid2, getName}, bind: bindTwo, serve: (*session).link, entry: true},
	wire.Tmkdir:       {name: "Tmkdir", dialects: linux, get: fields{getFid, getName, getPerm, getGID}, bind: bindFid, serve: (*session).mkdir, entry: true},
	wire.Trenameat:    {name: "Trenameat", dialects: linux, get: fields{getFid, getName, getFid2, getName2}, bind: bindTwo, serve: (*session).renameat},
	wire.Tunlinkat:    {name: "Tunlinkat", dialects: linux, get: fields{getFid, getName, getFlags}, bind: bindFid, serve: (*session).unlinkat, entry: true},
}

func getFid(c *wire.Cutter, r *request)    { r.fid = c.U32() }
func getFid2(c *wire.Cutter, r *request)   { r.fid2 = c.U32() }
func getOldtag(c *wire.Cutter, r *request) { r.oldtag = c.U16() }
func getName(c *wire.Cutter, r *request)   { r.name = c.Str() }
func getName2(c *wire.Cutter, r *request)  { r.name2 = c.Str() }
func getMode(c *wire.Cutter, r *request)   { r.flags = uint32(c.U8()) } // of 9P2000
func getFlags(c *wire.Cutter, r *request)  { r.flags = c.U32() }
func getPerm(c *wire.Cutter, r *request)   { r.perm = c.U32() }
func getType(c *wire.Cutter, r *request)   { r.perm = uint32(c.U8()) } // of a lock
func getMask(c *wire.Cutter, r *request)   { r.mask = c.U64() }
func getOffset(c *wire.Cutter, r *request) { r.offset = c.U64() }
func getSize(c *wire.Cutter, r *request)   { r.size = c.U64() }
func getCount(c *wire.Cutter, r *request)  { r.count = c.U32() }
func getData(c *wire.Cutter, r *request)   { r.data = c.Data() }
func getWstat(c *wire.Cutter, r *request)  { r.data = c.Take(int(c.U16())) } // which has its length once more
func getGID(c *wire.Cutter, r *request)    { r.gid = c.U32() }
func getPID(c *wire.Cutter, r *request)    { r.pid = c.U32() }
func getDevice(c *wire.Cutter, _ *request) { c.Take(8) } // of no use

// getMore passes over a number that not all send: the user's, which 9P2000.L
// has and 9P2000 has not, and datasync, which older clients have not.
func getMore(c *wire.Cutter, _ *request) {
	if len(c.B) > 0 {
		c.U32()
	}
}

// getNames takes the names of a walk; too many are for the handler to refuse.
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

func getChange(c *wire.Cutter, r *request) {
	r.mask = uint64(c.U32())
	r.perm, r.uid, r.gid, r.size = c.U32(), c.U32(), c.U32(), c.U64()
	r.atime, r.mtime = c.Time(), c.Time()
}
