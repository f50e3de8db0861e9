
.
xPlaceholder*
dtype0*
shape:

opTwicex
E
yPartitionedCallop*
Tin
2*
Tout
2*
f	R
Twiceè
s
+
Affine
a"T
b"T
r"T"	
Ttype
pMulaa*
TJT
sAddV2p:z:0b*
TJT"

rs:z:0
q

Twice
u
v
firstAffineuu*
T0'
secondAffine	first:r:0u*
T0"
v
second:r:0"†